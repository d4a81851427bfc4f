// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/version.hpp>
#include <exception>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/operation.hpp>
#include <holdfast/detail/outcome.hpp>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <memory>
#include <type_traits>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

namespace detail {

class hold_impl;
class slot_impl;

/// An `exception_ptr` as a type of this library. It makes `co_await` work before Boost 1.83: see the end of this file.
struct thrown : std::exception_ptr {
  thrown() = default;
  thrown(std::exception_ptr failure) noexcept  // NOLINT(google-explicit-constructor): it is an exception_ptr
      : std::exception_ptr(std::move(failure)) {}
};

#if BOOST_VERSION < 108300
template <class... Results>
using failure_of = std::conditional_t<sizeof...(Results) == 0, std::exception_ptr, thrown>;
#else
template <class...>
using failure_of = std::exception_ptr;
#endif

/// Calls the handler of a plain token with the code of an outcome.
template <class Handler>
struct plain_handler {
  Handler handler;
  template <class... Results>
  void operator()(const outcome& ended, Results&&... results) {
    std::move(handler)(ended.code(), std::forward<Results>(results)...);
  }
};

/// Calls the handler of `throwing` with the exception of an outcome.
template <class Handler>
struct throwing_handler {
  Handler handler;
  template <class... Results>
  void operator()(const outcome& ended, Results&&... results) {
    std::move(handler)(failure_of<Results...>(ended.exception()), std::forward<Results>(results)...);
  }
};

/// Calls a handler that takes a `To` with a `To` that is constructed from a `From`.
template <class To, class From, class Handler>
struct converting {
  Handler handler;
  void operator()(outcome ended, From from) { std::move(handler)(std::move(ended), To(std::move(from))); }
};

template <class Handler>
struct takes_outcome : std::false_type {};
template <class Handler>
struct takes_outcome<throwing_handler<Handler>> : std::true_type {};
template <class To, class From, class Handler>
struct takes_outcome<converting<To, From, Handler>> : std::true_type {};

/// Makes a handler of an outcome from the handler of a completion token.
template <class Handler>
auto receiving(Handler&& handler) {
  using own = std::decay_t<Handler>;
  if constexpr (takes_outcome<own>::value) {
    return own(std::forward<Handler>(handler));
  } else {
    return plain_handler<own>{std::forward<Handler>(handler)};
  }
}

/// The initiation of an operation with the token `throwing`. It is not an aggregate, for the reason given below.
template <class Initiation>
class throwing_initiation : public Initiation {
public:
  explicit throwing_initiation(Initiation from) : Initiation(std::move(from)) {}
  template <class Handler>
  void operator()(Handler&& handler) && {
    using own = throwing_handler<std::decay_t<Handler>>;
    static_cast<Initiation&&>(*this)(own{std::forward<Handler>(handler)});
  }
};

/// A function as an object without members. Initiations are stored in the frames of waiting coroutines, so they should
/// be small.
template <auto Function>
struct calling {
  template <class... Arguments>
  void operator()(Arguments&&... arguments) const {
    Function(std::forward<Arguments>(arguments)...);
  }
};

/// The error of an operation of an empty handle.
template <class Impl>
inline constexpr error error_if_empty = error::closed;
template <>
inline constexpr error error_if_empty<hold_impl> = error::not_held;
template <>
inline constexpr error error_if_empty<slot_impl> = error::not_held;

/// The initiation of an operation of this library. When it is called, it passes the implementation object and the
/// handler to `start`. It is not an aggregate, because g++ 12 destroys aggregate temporaries in a co_await expression
/// twice. `executor_of(impl)` is the executor of the implementation, and `strand_of(impl)`, if there is one, its
/// strand.
///
/// The operation of an empty handle completes with `error_if_empty`. The empty handle has no executor, so the
/// completion is posted to the handler's own executor, or to `system_executor` if it has none. If the handler's
/// executor has only `execute`, which may call the handler at once, the completion is first posted to
/// `system_executor`. Other completions do not take this way: the thread there would keep the handler's executor, and
/// perhaps its context, alive for a moment longer than the handler.
template <class Impl, class Start, class... Results>
class initiation {
public:
  using executor_type = asio::any_io_executor;
  initiation(std::shared_ptr<Impl> impl, Start start) : impl_(std::move(impl)), start_(std::move(start)) {}

  executor_type get_executor() const noexcept { return impl_ ? executor_type(executor_of(*impl_)) : executor_type(); }
  template <class Handler>
  void operator()(Handler&& handler) const& {
    if (!impl_) return answer(std::forward<Handler>(handler));
    start_(impl_, keep(std::forward<Handler>(handler)));
  }
  template <class Handler>
  void operator()(Handler&& handler) && {
    if (!impl_) return answer(std::forward<Handler>(handler));
    std::move(start_)(impl_, keep(std::forward<Handler>(handler)));
  }

private:
  template <class Handler>
  pending<Results...> keep(Handler&& handler) const {
    if constexpr (requires(const Impl& impl) { strand_of(impl); })
      return {receiving(std::forward<Handler>(handler)), executor_of(*impl_), &strand_of(*impl_)};
    else
      return {receiving(std::forward<Handler>(handler)), executor_of(*impl_)};
  }
  // The default is `system_executor`: from Boost 1.90 on, asio's own default for a handler without an executor is to
  // call the handler in place, and nothing would be posted.
  template <class Handler>
  [[gnu::cold]] static void answer(Handler&& handler) {
    auto executor = asio::get_associated_executor(handler, asio::system_executor());
    using own = decltype(executor);
    constexpr error ec = error_if_empty<std::remove_const_t<Impl>>;
    if constexpr (asio::can_require_v<own, asio::execution::blocking_t::never_t>) {
      asio::post(asio::bind_executor(std::move(executor), asio::append(receiving(std::forward<Handler>(handler)),
                                                                       make_error_code(ec), Results()...)));
    } else {
      pending<Results...> waiting(receiving(std::forward<Handler>(handler)),
                                  asio::any_io_executor(asio::system_executor()));
      waiting->set_result(make_error_code(ec), Results()...);
      post_to_system(waiting.take());
    }
  }

  std::shared_ptr<Impl> impl_;
  [[no_unique_address]] Start start_;
};

/// An `initiation` for an operation that completes with a `To`, while `start` takes a handler of a `From`.
template <class To, class From, class Impl, class Start>
class initiation_as : public initiation<Impl, Start, From> {
public:
  using base = initiation<Impl, Start, From>;
  using base::base;

  template <class Handler>
  void operator()(Handler&& handler) const {
    auto receives = receiving(std::forward<Handler>(handler));
    base::operator()(converting<To, From, decltype(receives)>{std::move(receives)});
  }
};

/// The body of every operation of this library.
/// `begin_operation<Results...>(impl, start, token)` completes with (error_code, Results...).
template <class... Results, class Impl, class Start, class Token>
auto begin_operation(std::shared_ptr<Impl> impl, Start start, Token&& token) {
  return asio::async_initiate<Token, void(error_code, Results...)>(
      initiation<Impl, Start, Results...>(std::move(impl), std::move(start)), token);
}
template <class To, class From, class Impl, class Start, class Token>
auto begin_operation_as(std::shared_ptr<Impl> impl, Start start, Token&& token) {
  return asio::async_initiate<Token, void(error_code, To)>(
      initiation_as<To, From, Impl, Start>(std::move(impl), std::move(start)), token);
}

}  // namespace detail

}  // namespace holdfast

template <class... Results>
struct boost::asio::async_result<holdfast::throwing_t, void(boost::system::error_code, Results...)> {
  template <class Initiation>
  static auto initiate(Initiation&& from, holdfast::throwing_t) {
    using initiation = holdfast::detail::throwing_initiation<std::decay_t<Initiation>>;
    using signature = void(holdfast::detail::failure_of<Results...>, Results...);
    return async_result<deferred_t, signature>::initiate(initiation(std::forward<Initiation>(from)), deferred_t());
  }
};

/// The executor, the cancellation slot and the allocator are those of the inner handler.
template <template <class, class> class Associator, class Handler, class Default>
struct boost::asio::associator<Associator, holdfast::detail::plain_handler<Handler>, Default>
    : Associator<Handler, Default> {
  static auto get(const holdfast::detail::plain_handler<Handler>& h) noexcept {
    return Associator<Handler, Default>::get(h.handler);
  }
  static auto get(const holdfast::detail::plain_handler<Handler>& h, const Default& otherwise) noexcept {
    return Associator<Handler, Default>::get(h.handler, otherwise);
  }
};
template <template <class, class> class Associator, class Handler, class Default>
struct boost::asio::associator<Associator, holdfast::detail::throwing_handler<Handler>, Default>
    : Associator<Handler, Default> {
  static auto get(const holdfast::detail::throwing_handler<Handler>& h) noexcept {
    return Associator<Handler, Default>::get(h.handler);
  }
  static auto get(const holdfast::detail::throwing_handler<Handler>& h, const Default& otherwise) noexcept {
    return Associator<Handler, Default>::get(h.handler, otherwise);
  }
};
template <template <class, class> class Associator, class To, class From, class Handler, class Default>
struct boost::asio::associator<Associator, holdfast::detail::converting<To, From, Handler>, Default>
    : Associator<Handler, Default> {
  static auto get(const holdfast::detail::converting<To, From, Handler>& h) noexcept {
    return Associator<Handler, Default>::get(h.handler);
  }
  static auto get(const holdfast::detail::converting<To, From, Handler>& h, const Default& otherwise) noexcept {
    return Associator<Handler, Default>::get(h.handler, otherwise);
  }
};

#if BOOST_VERSION < 108300
/// Lets `awaitable` await an operation that completes with an exception and one result. Asio's own handler for that
/// does not compile before Boost 1.83. No other library uses `thrown`, so this specialization cannot collide with
/// another one.
template <class Result, class Executor>
class boost::asio::detail::awaitable_async_op_handler<void(holdfast::detail::thrown, Result), Executor>
    : public boost::asio::detail::awaitable_thread<Executor> {
public:
  struct result_type {
    std::exception_ptr* failure;
    Result* value;
  };

  awaitable_async_op_handler(awaitable_thread<Executor>* awaiting, result_type& into)
      : awaitable_thread<Executor>(std::move(*awaiting)), into_(into) {}

  void operator()(holdfast::detail::thrown failure, Result value) {
    into_ = {&failure, &value};
    auto* const frame = this->entry_point()->top_of_stack_;
    frame->attach_thread(this);
    frame->clear_cancellation_slot();
    this->pump();
  }

  static Result resume(result_type& from) {
    if (*from.failure) std::rethrow_exception(std::exchange(*from.failure, nullptr));
    return std::move(*from.value);
  }

private:
  result_type& into_;
};
#endif

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108200
#include <boost/asio/associated_immediate_executor.hpp>
#endif
#include <exception>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <memory>
#include <type_traits>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

namespace detail {

/// The result of an operation: success, or a code with diagnostics. Plain completion tokens get only the code.
/// `throwing` gets an exception that contains the code and the diagnostics. On success nothing is allocated. The object
/// is as large as a pointer.
class HOLDFAST_EXPORT outcome {
public:
  outcome() noexcept = default;
  outcome(const error_code& ec) {  // NOLINT(google-explicit-constructor): most failures have only a code
    if (ec) *this = outcome(ec, {});
  }
  outcome(const error_code& ec, diagnostics why);

  error_code code() const noexcept { return failure_ ? code_of(*failure_) : error_code(); }
  /// An `error_with_diagnostics`. Null on success.
  std::exception_ptr exception() const { return failure_ ? make_exception() : nullptr; }

private:
  // Allocated separately, because outcomes are moved often and most of them are successes.
  struct failure;
  struct deleter {
    void operator()(failure* ended) const noexcept;
  };
  static error_code code_of(const failure& ended) noexcept;
  std::exception_ptr make_exception() const;

  std::unique_ptr<failure, deleter> failure_{};
};

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

/// True if both are the same executor, whatever their types.
template <class Executor>
bool is_same(const Executor& own, const asio::any_io_executor& other) {
  if constexpr (std::is_convertible_v<const Executor&, asio::any_io_executor>) {
    const asio::any_io_executor& same = own;
    return same == other;
  } else {
    return asio::any_completion_executor(own) == asio::any_completion_executor(other);
  }
}

#if BOOST_VERSION >= 108200
/// Stands for an executor while a handler is asked which executors it has. A handler without one answers with this.
struct executor_stand_in {
  executor_stand_in require(asio::execution::blocking_t::never_t) const noexcept { return {}; }
  template <class Function>
  void execute(Function&&) const noexcept {}
  bool operator==(const executor_stand_in&) const noexcept = default;
};

template <class Handler>
inline constexpr bool has_own_executor =
    !std::is_same_v<asio::associated_executor_t<Handler, executor_stand_in>, executor_stand_in>;
template <class Handler>
inline constexpr bool has_own_immediate_executor =
    !std::is_same_v<asio::associated_immediate_executor_t<Handler, executor_stand_in>, executor_stand_in>;

/// The executors that complete a handler within its initiating function.
struct immediate_executors {
  template <class Handler>
  static std::unique_ptr<immediate_executors> of(const Handler& h, const asio::any_io_executor& home) {
    if constexpr (has_own_immediate_executor<Handler>) {
      if (!home) return nullptr;  // the context has been destroyed, so the handler will not be called
      auto its = std::make_unique<immediate_executors>();
      its->immediate = asio::get_associated_immediate_executor(h, home);
      if constexpr (has_own_executor<Handler>) {
        asio::any_completion_executor own(asio::get_associated_executor(h, executor_stand_in()));
        if (!own.target<executor_stand_in>()) its->own = std::move(own);  // a type-erased handler may have none
      }
      return its;
    } else {
      return nullptr;
    }
  }

  asio::any_completion_executor immediate{};
  asio::any_completion_executor own{};  ///< the handler's associated executor; empty if it has none
};
#endif

/// The executor, with tracked work. It is kept out of the code of each operation, because most handlers have the
/// executor of their lock.
template <class Executor>
[[gnu::noinline]] std::unique_ptr<asio::any_completion_executor> tracked(Executor&& own) {
  return std::make_unique<asio::any_completion_executor>(
      asio::prefer(std::forward<Executor>(own), asio::execution::outstanding_work.tracked));
}

/// A pending completion handler, type-erased. The associated executor is read before the erasure, because reading it
/// afterwards allocates. `home` is the executor that the completion will be posted to. If the implementation works on a
/// strand that is open to users, `strand` points to it.
template <class... Results>
struct pending {
  pending() = default;
  template <class Handler>
  pending(Handler&& h, const asio::any_io_executor& home, const asio::any_io_executor* strand = nullptr) {
#if BOOST_VERSION >= 108200
    immediate = immediate_executors::of(h, home);
#endif
    auto own = asio::get_associated_executor(h, home);
    is_on_strand = strand && is_same(own, *strand);
    if (!is_on_strand && !is_same(own, home)) elsewhere = tracked(std::move(own));
    asio::any_completion_handler<void(outcome, Results...)>(std::forward<Handler>(h)).swap(handler);
  }
  pending(pending&&) noexcept = default;
  pending& operator=(pending&& other) noexcept {  // Boost 1.81's handler has no assignment that works
    handler.swap(other.handler);
    elsewhere.swap(other.elsewhere);
    std::swap(is_on_strand, other.is_on_strand);
#if BOOST_VERSION >= 108200
    immediate.swap(other.immediate);
#endif
    return *this;
  }

  asio::any_completion_handler<void(outcome, Results...)> handler{};
  std::unique_ptr<asio::any_completion_executor>
      elsewhere{};  ///< its executor, with tracked work; null if it is `home` or the strand
#if BOOST_VERSION >= 108200
  std::unique_ptr<immediate_executors> immediate{};  ///< null if the handler has no immediate executor
#endif
  bool is_on_strand = false;  ///< its executor is the strand, whose work keeps the context running
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

/// The initiation of an operation of this library. When it is called, it passes the implementation object and the
/// handler to `start`. It is not an aggregate, because g++ 12 destroys aggregate temporaries in a co_await expression
/// twice. `executor_of(impl)` is the executor of the implementation, and `strand_of(impl)`, if there is one, its
/// strand.
template <class Impl, class Start, class... Results>
class initiation {
public:
  using executor_type = asio::any_io_executor;
  initiation(std::shared_ptr<Impl> impl, Start start) : impl_(std::move(impl)), start_(std::move(start)) {}

  executor_type get_executor() const noexcept { return executor_of(*impl_); }
  template <class Handler>
  void operator()(Handler&& handler) const& {
    start_(impl_, keep(std::forward<Handler>(handler)));
  }
  template <class Handler>
  void operator()(Handler&& handler) && {
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

protected:
  std::shared_ptr<Impl> impl_;
  [[no_unique_address]] Start start_;
};

/// An `initiation` for operations that may be called on an empty handle. On an empty handle the operation completes
/// with error::not_held. The empty handle has no executor, so the completion is posted to the handler's own executor,
/// or to `system_executor` if it has none. It is not posted through another thread first: that thread would keep the
/// handler's executor, and perhaps its context, alive for a moment longer than the handler.
template <class Impl, class Start, class... Results>
class initiation_if_held : public initiation<Impl, Start, Results...> {
public:
  using base = initiation<Impl, Start, Results...>;
  using base::base;
  using typename base::executor_type;

  executor_type get_executor() const noexcept { return this->impl_ ? base::get_executor() : executor_type(); }
  template <class Handler>
  void operator()(Handler&& handler) const {
    if (this->impl_)
      base::operator()(std::forward<Handler>(handler));
    else
      answer(std::forward<Handler>(handler));
  }

private:
  // The default is `system_executor`: from Boost 1.90 on, asio's own default for a handler without an executor is to
  // call the handler in place, and nothing would be posted.
  template <class Handler>
  static void answer(Handler&& handler) {
    auto executor = asio::get_associated_executor(handler, asio::system_executor());
    asio::post(asio::bind_executor(std::move(executor), asio::append(receiving(std::forward<Handler>(handler)),
                                                                     make_error_code(error::not_held), Results()...)));
  }
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
template <class... Results, class Impl, class Start, class Token>
auto begin_operation_if_held(std::shared_ptr<Impl> impl, Start start, Token&& token) {
  return asio::async_initiate<Token, void(error_code, Results...)>(
      initiation_if_held<Impl, Start, Results...>(std::move(impl), std::move(start)), token);
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

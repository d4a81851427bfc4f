#pragma once

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/system_executor.hpp>
#include <holdfast/detail/build.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <type_traits>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

namespace detail {

/// A handler that waits, its type erased. Its executor is looked at before that: afterwards it costs an allocation.
template <class... Results>
struct pending {
  pending() = default;
  template <class Handler>
  pending(Handler&& h, const asio::any_io_executor& home) {
    auto own = asio::get_associated_executor(h, home);
    bool is_home = false;
    if constexpr (std::is_convertible_v<decltype(own), asio::any_io_executor>) {
      const asio::any_io_executor& same = own;
      is_home = same == home;
    }
    if (!is_home)
      elsewhere = std::make_unique<asio::any_completion_executor>(
          asio::prefer(std::move(own), asio::execution::outstanding_work.tracked));
    asio::any_completion_handler<void(Results...)>(std::forward<Handler>(h)).swap(handler);
  }
  pending(pending&&) noexcept = default;
  pending& operator=(pending&& other) noexcept {  // Boost 1.81's handler has no assignment that works
    handler.swap(other.handler);
    elsewhere.swap(other.elsewhere);
    return *this;
  }

  asio::any_completion_handler<void(Results...)> handler{};
  std::unique_ptr<asio::any_completion_executor> elsewhere{};  ///< its executor, at work, if it is not the client's
};

/// A function as an object that takes no room: initiations stand in the frames of the coroutines that wait.
template <auto Function>
struct calling {
  template <class... Arguments>
  void operator()(Arguments&&... arguments) const {
    Function(std::forward<Arguments>(arguments)...);
  }
};

/// What an operation of the library begins with, when its completion token says so: `start` gets what performs it and
/// the handler. Not an aggregate: g++ 12 destroys aggregate temporaries in a co_await expression twice.
template <class Impl, class Start, class... Results>
class initiation {
public:
  using executor_type = asio::any_io_executor;
  initiation(std::shared_ptr<Impl> impl, Start start) : impl_(std::move(impl)), start_(std::move(start)) {}

  executor_type get_executor() const noexcept { return executor_of(*impl_); }
  template <class Handler>
  void operator()(Handler&& handler) const {
    start_(impl_, pending<error_code, Results...>(std::forward<Handler>(handler), executor_of(*impl_)));
  }

protected:
  std::shared_ptr<Impl> impl_;
  [[no_unique_address]] Start start_;
};

/// The same for what an empty handle may be asked, and then answers error::not_held: on the handler's executor, for it
/// has none of its own, and not by way of another thread's. That would keep hold of the handler's executor for a moment
/// longer than the handler, and maybe its context.
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
  // From Boost 1.90 on the default of a handler without an executor is to be called in place: nothing is posted there.
  template <class Handler>
  static void answer(Handler&& handler) {
    auto executor = asio::get_associated_executor(handler, asio::system_executor());
    asio::post(asio::bind_executor(std::move(executor), asio::append(std::forward<Handler>(handler),
                                                                     make_error_code(error::not_held), Results()...)));
  }
};

/// The handler of an operation that completes with a `To`, for the `From` that it is made of.
template <class To, class From, class Handler>
struct converting {
  Handler handler;
  void operator()(error_code ec, From from) { std::move(handler)(ec, To(std::move(from))); }
};

/// The same for an operation that completes with a `To`, where `start` takes the handler of a `From`.
template <class To, class From, class Impl, class Start>
class initiation_as : public initiation<Impl, Start, From> {
public:
  using base = initiation<Impl, Start, From>;
  using base::base;

  template <class Handler>
  void operator()(Handler&& handler) const {
    base::operator()(converting<To, From, std::decay_t<Handler>>{std::forward<Handler>(handler)});
  }
};

/// The body of every operation: `begin_operation<Results...>(impl, start, token)`, completed with (error_code,
/// Results...).
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

/// Executor, cancellation slot and allocator are those of the handler within.
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

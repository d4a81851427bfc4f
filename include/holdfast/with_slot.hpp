// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <concepts>
#include <exception>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <holdfast/loss_reason.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/slot.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace holdfast {

/// Thrown by `with_slot`, `with_lock` and `with_leadership` if the slot was lost. The code is `error::slot_lost`.
/// `get_diagnostics()` returns `slot::loss_details`. If the body has thrown an exception other than operation_aborted,
/// it is nested in this one (`std::rethrow_if_nested`).
class HOLDFAST_EXPORT slot_lost_error : public error_with_diagnostics {
public:
  slot_lost_error(loss_reason reason, const diagnostics& details);
  loss_reason reason() const noexcept { return reason_; }

private:
  loss_reason reason_;
};

namespace detail {

/// `from_body` is the exception of the body, or null. It is nested unless it is a `system_error` with
/// operation_aborted, which is the usual result of the cancellation that came with the loss.
[[noreturn]] HOLDFAST_EXPORT void throw_lost(loss_reason reason, const diagnostics& details,
                                             const std::exception_ptr& from_body);

/// The handler of `wait_lost` while a body runs. A loss is reported on the client's executor, but may cancel the body
/// only on the body's own executor. If this handler is destroyed without being called, the client's context has been
/// destroyed, so the slot is lost.
template <class Handler>
class loss_handler {
public:
  loss_handler(Handler handler, asio::any_io_executor executor)
      : handler_(std::move(handler)), executor_(std::move(executor)) {}
  loss_handler(loss_handler&&) noexcept = default;
  loss_handler& operator=(loss_handler&&) = delete;
  ~loss_handler() {
    if (!executor_) return;  // it has been called, or moved from
    try {
      const asio::any_io_executor executor = std::move(executor_);
      asio::post(executor,
                 [handler = std::move(handler_)]() mutable { std::move(handler)(error_code(), loss_reason::closed); });
      // NOLINTNEXTLINE(bugprone-empty-catch): the executor has thrown, so nothing can be called there
    } catch (...) {
    }
  }
  void operator()(const error_code& ec, loss_reason reason) {
    executor_ = {};
    std::move(handler_)(ec, reason);
  }

  using executor_type = asio::any_io_executor;
  using cancellation_slot_type = asio::cancellation_slot;
  executor_type get_executor() const noexcept { return executor_; }
  cancellation_slot_type get_cancellation_slot() const noexcept {
    return asio::get_associated_cancellation_slot(handler_);
  }

private:
  Handler handler_;
  asio::any_io_executor executor_;  ///< empty once the handler has been called
};

/// Waits for the loss of the slot. Also completes if the client's context is destroyed.
inline auto loss_of(hold& held, const asio::any_io_executor& executor) {
  return asio::async_initiate<const asio::deferred_t, void(error_code, loss_reason)>(
      [&held, executor](auto handler) { held.wait_lost(loss_handler(std::move(handler), executor)); }, asio::deferred);
}

/// A condition for parallel groups: the body has ended, or its slot is lost. If the body has released the slot or has
/// moved it out, the end of the wait is no reason to cancel the body.
struct end_of_body_or_loss {
  asio::cancellation_type operator()(const std::exception_ptr&) const noexcept {
    return asio::cancellation_type::terminal;
  }
  asio::cancellation_type operator()(const error_code&, loss_reason reason) const noexcept {
    return reason == loss_reason::none ? asio::cancellation_type::none : asio::cancellation_type::terminal;
  }
};

/// `Slot` is a class derived from `hold`. The body receives a reference to it.
template <class Slot, class Body>
asio::awaitable<void> run_with_slot(Slot held, Body body) {
  const auto executor = co_await asio::this_coro::executor;
  // Cancellation reaches the body, and does not prevent the release.
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);

  // The body begins at once, and may move the slot out. So the wait for its loss begins first.
  auto group = asio::experimental::make_parallel_group(loss_of(held, executor),
                                                       asio::co_spawn(executor, body(held), asio::deferred));
  auto [order, wait_error, reason, failure] = co_await group.async_wait(end_of_body_or_loss(), asio::use_awaitable);

  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  // The loss may not have been reported: this thread may have been paused, and the body may have ended first.
  if (held.state() == slot_state::lost) reason = held.lost_because();
  if (reason != loss_reason::none) throw_lost(reason, held.loss_details(), failure);
  error_code ignored;
  co_await held.release(asio::redirect_error(asio::use_awaitable, ignored));
  if (failure) std::rethrow_exception(failure);
}

template <class Slot, class Body>
asio::awaitable<void> with_held(Slot held, Body body) {
  const auto executor = co_await asio::this_coro::executor;
  const auto before = co_await asio::this_coro::cancellation_state;
  if (before.cancelled() != asio::cancellation_type::none)
    throw system_error(asio::error::operation_aborted);  // the destructor of `held` releases the slot
  // The body runs in a separate coroutine, so that changes of its cancellation state do not affect the caller. The
  // coroutine runs on a strand of its own, because the body and its cancellation may come from several threads. Asio
  // 1.81 itself forwards a cancellation to another strand through a pointer that may be stale when it arrives.
  const asio::strand<asio::any_io_executor> strand(executor);
  const auto cancellation = std::make_shared<asio::cancellation_signal>();
  asio::cancellation_slot from = before.slot();
  if (from.is_connected())
    from.assign([strand, cancellation](asio::cancellation_type type) {
      asio::dispatch(strand, [cancellation, type] { cancellation->emit(type); });
    });
  asio::awaitable<void> run = run_with_slot(std::move(held), std::move(body));
  auto [failure] = co_await asio::co_spawn(
      strand, std::move(run), asio::bind_cancellation_slot(cancellation->slot(), asio::as_tuple(asio::use_awaitable)));
  from.clear();
  if (failure) std::rethrow_exception(failure);
}

/// g++ 12 destroys a temporary body in a co_await expression twice.
template <class Body>
constexpr void check_body() {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
  static_assert(std::is_lvalue_reference_v<Body> || std::is_trivially_destructible_v<Body>,
                "g++ 12 would destroy the captured values of this body twice. Give the body a name: "
                "`auto body = [...](...) {...}; co_await with_slot(sem, body);`");
#endif
}

}  // namespace detail

/// Runs `body(slot&)`, a coroutine that returns `asio::awaitable<void>`, while the slot is held. Then releases the
/// slot. This overload is for slots that you have already, for example from `try_acquire`; `held` must not be empty. If
/// you pass a `held_mutex` or a `leadership`, the body may take a `held_mutex&` or a `leadership&`. A body that takes a
/// `hold&` works with all of them.
///
/// If the body ends: the slot is released. If the body has thrown, its exception is rethrown after the release. A
/// failed release is not reported; in this case the slot is free when its session ends.
///
/// If the body releases the slot itself, or moves it out: the body is not cancelled. If the body has moved the slot out
/// and the slot is lost while the body runs, the body is cancelled.
///
/// If the slot is lost: the body is cancelled (terminal). When the body has ended, `slot_lost_error` is thrown with the
/// reason, no matter how the body ended. Until then nobody else gets the slot, so one body has ended before the next
/// begins. The class comment of `slot` lists the exceptions, for example: if the session is not renewed, Consul ends
/// it.
///
/// If the awaiting coroutine is cancelled: the body is cancelled, and then the slot is released.
///
/// Threads: the body runs on a strand of its own over the executor of the awaiting coroutine. That executor may have
/// several threads.
///
/// If the client's execution context is destroyed: the slot is lost (`closed`).
///
/// g++ 12 destroys the captured values of a temporary lambda in a co_await expression twice. With it, only these bodies
/// compile: lambdas that capture nothing or by reference, and lambdas that have a name.
///
/// <!-- cut from example/in_the_headers.cpp: with_slot -->
/// ```cpp
/// asio::awaitable<void> cancelled_by_a_loss(holdfast::semaphore& sem) {
///   try {
///     co_await holdfast::with_slot(sem, [](holdfast::slot&) { return write_report(); });
///   } catch (const holdfast::slot_lost_error& lost) {  // the report was cancelled
///     say("try again: " + std::string(to_string(lost.reason())));
///   }
/// }
/// ```
template <std::derived_from<hold> Slot, class Body>
asio::awaitable<void> with_slot(Slot held, Body&& body) {
  detail::check_body<Body>();
  return detail::with_held<Slot, std::decay_t<Body>>(std::move(held), std::forward<Body>(body));
}

namespace detail {

template <class Semaphore, class Body>
asio::awaitable<void> acquire_and_run(Semaphore& sem, Body body) {
  auto held = co_await sem.acquire();
  co_await with_held(std::move(held), std::move(body));
}

}  // namespace detail

/// Acquires a slot, runs `body(slot&)` and releases the slot, as above. If the awaiting coroutine is cancelled during
/// the acquire, the acquire is cancelled.
template <class Body>
asio::awaitable<void> with_slot(semaphore& sem, Body&& body) {
  detail::check_body<Body>();
  return detail::acquire_and_run<semaphore, std::decay_t<Body>>(sem, std::forward<Body>(body));
}

}  // namespace holdfast

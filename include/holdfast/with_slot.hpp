#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <concepts>
#include <exception>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <holdfast/loss_reason.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/slot.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

/// The exception of `with_slot`, `with_lock` and `with_leadership` when the slot was lost. The code is
/// `error::slot_lost`; `get_diagnostics()` is `slot::loss_details`. If the body has thrown an exception of its own,
/// that is nested in this one (`std::rethrow_if_nested`).
class slot_lost_error : public error_with_diagnostics {
public:
  slot_lost_error(loss_reason reason, const diagnostics& details);
  loss_reason reason() const noexcept { return reason_; }

private:
  loss_reason reason_;
};

namespace detail {

/// `from_body`: what the body has thrown, or null. The cancellation that came with the loss is not nested.
[[noreturn]] void throw_lost(loss_reason reason, const diagnostics& details, const std::exception_ptr& from_body);

/// `Slot` is what the body is given: a slot, or what is one.
template <class Slot, class Body>
asio::awaitable<void> run_with_slot(Slot held, Body body) {
  const auto executor = co_await asio::this_coro::executor;
  // Cancellation is for the body, and does not keep the release from running.
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  co_await asio::this_coro::throw_if_cancelled(false);

  // The loss comes on the client's executor, but may cancel the body on the body's own only.
  auto group = asio::experimental::make_parallel_group(asio::co_spawn(executor, body(held), asio::deferred),
                                                       held.wait_lost(asio::bind_executor(executor, asio::deferred)));
  auto [order, failure, wait_error, reason] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);

  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  // The lease may have run out without anybody having been told yet: this thread may have been away.
  if (reason == loss_reason::none && held.state() == slot_state::lost) reason = loss_reason::lease_expired;
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
    throw system_error(asio::error::operation_aborted);  // the handle gives the slot back
  // A coroutine of its own: what it does to its cancellation state would otherwise stay done to its caller. On a strand
  // of its own: the body, and what cancels it, may come from several threads. Asio 1.81 itself brings a cancellation to
  // another strand by a pointer that may be stale when it arrives.
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

}  // namespace detail

/// Runs `body(slot&)` (a coroutine: `asio::awaitable<void>`) while the slot is held, and releases the slot. For slots
/// from `try_acquire` and the like; `held` must not be empty. A `held_mutex` or a `leadership` comes as what it is: the
/// body may take a `held_mutex&` or a `leadership&`.
///
/// When the slot is lost, the body is cancelled (terminal) and waited for; then `slot_lost_error` is thrown, with the
/// reason, whatever the body made of it. Until then nobody else gets the slot, for at most two TTLs after the last
/// renewal: so a body has ended before the next begins, unless it goes on for longer, or an operator has taken the slot
/// away. Otherwise the body's own exception is passed on, after the release. A failed release is not reported: the slot
/// is free when its session ends. Cancelling the coroutine that awaits this cancels the body, and then releases. The
/// body runs on a strand of its own, over the awaiting coroutine's executor, which may have several threads. Write the
/// body as a captureless lambda, one that captures by reference, or a named one: g++ 12 destroys what a temporary
/// lambda captured by value in a co_await expression twice.
template <std::derived_from<slot> Slot, class Body>
asio::awaitable<void> with_slot(Slot held, Body body) {
  return detail::with_held(std::move(held), std::move(body));
}

/// Acquires a slot first. Cancelling the coroutine that awaits this cancels the acquire, too.
template <class Body>
asio::awaitable<void> with_slot(semaphore& sem, Body body) {
  slot held = co_await sem.acquire();
  co_await with_slot(std::move(held), std::move(body));
}

}  // namespace holdfast

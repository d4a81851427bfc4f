// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/rabbitmq/client.hpp>
#include <holdfast/rabbitmq/options.hpp>
#include <holdfast/rabbitmq/slot.hpp>
#include <holdfast/slot_source.hpp>
#include <holdfast/with_slot.hpp>
#include <string>
#include <utility>

namespace holdfast::rabbitmq {

/// A counting semaphore on a RabbitMQ broker. All processes that use the same name on the same broker hold at most as
/// many slots at any time as the semaphore has. It uses the queues of the "Persistent Semaphore", so it may share its
/// slots with other clients of that scheme.
///
/// Any number of coroutines of one process may wait. They queue in the process, first come, first served. A released
/// slot can go to the next waiter in the same process without a request to the broker, for at most
/// `tuning::local_handoff_time`. There is no order between processes.
///
/// All acquires (`acquire`, `try_acquire`, `try_acquire_for`) have this in common:
///
/// - Signature: void(error_code, rabbitmq::slot).
/// - Errors that are reported at once: closed, too_many_waiters, no_semaphore, not_a_semaphore, lease_conflict,
///   permission_denied, certificate_refused, client_certificate_refused, malformed_reply.
/// - Errors that are reported after `tuning::give_up_after`: all that equal `condition::unavailable`. An acquire waits
///   while this process has a connection that works.
/// - Cancellation: terminal, partial, total. The acquire completes with operation_aborted and takes no slot. If a slot
///   is granted at that moment, it goes to the next waiter or is released.
/// - Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The semaphore object
///   need not.
///
/// A slot whose last holder has not released it is first kept for a whole lease, because that holder may still believe
/// that it holds the slot. So is a slot that a client without leases has created, at its first use.
///
/// `statistics`: `sessions` is the number of connections for slots.
///
/// Completion tokens, executors, allocators and threads: as for `holdfast::semaphore`.
///
/// Lifetimes: the semaphore object may be destroyed at any time. Waiting acquires then fail with error::closed. Held
/// slots stay held until they are released. `close` also ends the held slots, and reports when everything is done.
class HOLDFAST_EXPORT semaphore : public slot_source {
public:
  /// Creates an empty object.
  semaphore() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_name, invalid_ttl (for the lease), invalid_option.
  semaphore(const client& broker, semaphore_options options);

  const std::string& name() const noexcept;

  /// Acquires a slot. Completes when the slot is granted, without a time limit. Errors, cancellation and lifetimes: see
  /// the class comment.
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto acquire(Token&& token = {}) {
    return initiate<slot>(operation_options(), std::forward<Token>(token));
  }
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto acquire(operation_options options, Token&& token = {}) {
    return initiate<slot>(options, std::forward<Token>(token));
  }

  /// Acquires a slot if that is possible without waiting for a release or for the end of a lease. Asks the broker if
  /// necessary. Completes with an empty slot if none is free, if other acquires of this object already wait, or if
  /// other processes were faster three times.
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto try_acquire(Token&& token = {}) {
    return initiate<slot>(holdfast::detail::once(operation_options()), std::forward<Token>(token));
  }
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto try_acquire(operation_options options, Token&& token = {}) {
    return initiate<slot>(holdfast::detail::once(options), std::forward<Token>(token));
  }

  /// Acquires a slot, but waits for at most `duration`. Completes with an empty slot if none was free in that time, and
  /// fails if the broker has not answered by then. With a `duration` of zero it does the same as `try_acquire`.
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, Token&& token = {}) {
    return initiate<slot>(holdfast::detail::within(duration, operation_options()), std::forward<Token>(token));
  }
  template <holdfast::detail::slot_token<slot> Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, operation_options options, Token&& token = {}) {
    return initiate<slot>(holdfast::detail::within(duration, options), std::forward<Token>(token));
  }
};

}  // namespace holdfast::rabbitmq

namespace holdfast {

/// Acquires a slot, runs `body(rabbitmq::slot&)` and releases the slot, as `with_slot` does for a `semaphore`. If the
/// awaiting coroutine is cancelled during the acquire, the acquire is cancelled.
template <class Body>
asio::awaitable<void> with_slot(rabbitmq::semaphore& sem, Body&& body) {
  detail::check_body<Body>();
  return detail::acquire_and_run<rabbitmq::semaphore, std::decay_t<Body>>(sem, std::forward<Body>(body));
}

}  // namespace holdfast

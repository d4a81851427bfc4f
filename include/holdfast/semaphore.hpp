// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/options.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/slot_source.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace holdfast {

/// A distributed counting semaphore over Consul. All processes that use the same prefix, lock key and limit hold at
/// most `limit` slots at any time.
///
/// Any number of coroutines of one process may wait. They queue in the process, first come, first served, and share at
/// most `limit` Consul sessions. A released slot can go to the next waiter in the same process without a request to
/// Consul. This happens while nobody waits in another process, and otherwise for at most `tuning::local_handoff_time`.
/// After that time, one write moves the slot to the contender that has waited longest in the cluster.
///
/// Completion tokens: each operation takes one. The default is `throwing`. There is no `rebind_executor`, and no
/// default token by executor (`asio::default_completion_token_t`), because every handle has an `asio::any_io_executor`.
/// So `co_await sem.acquire()` works in a coroutine on any executor.
///
/// Executors and allocators: a completion handler runs on its associated executor, by default the client's executor. It
/// is never called inside the initiating function, unless it has an immediate executor. A waiting handler is stored in
/// memory from its associated allocator. If the executor is an `io_context`'s, this memory has room for posting the
/// handler, too, so a completion needs no other memory. If another executor throws when a completion is posted to it,
/// the handler is destroyed without being called.
///
/// Immediate completion, with Boost 1.82 or later: if the handler has an associated immediate executor
/// (`asio::bind_immediate_executor`), an acquire that needs nothing from Consul completes through that executor. For
/// example, the process has a free slot. Then the handler may be called inside `acquire`, and it may use or destroy the
/// semaphore. If the handler has an associated executor, too, it is dispatched to that one. A handler that acquires
/// again inside `acquire` nests the calls, so it must end somewhere. All other completions are posted.
///
/// All acquires (`acquire`, `try_acquire`, `try_acquire_for`) have this in common:
///
/// - Signature: void(error_code, slot).
/// - Errors that are reported at once: closed, too_many_waiters, too_many_slots, not_a_semaphore, limit_conflict,
///   corrupt_record, permission_denied, invalid_ttl, plain_http_refused, certificate_refused,
///   client_certificate_refused, reply_too_large, bad_request, too_large. With
///   `semaphore_options::use_recorded_limit`, a count over the limit is reported when the acquire reaches the head of
///   the local queue, after a read of the record.
/// - would_be_late is reported only with `acquire_options::deadline`: at that time, or at once.
/// - Errors that are reported at `acquire_options::deadline`, or at the end of the time of `try_acquire_for`: all that
///   equal `condition::unavailable`. They say that a request has failed or was not answered, so it is not known whether
///   a slot was free.
/// - Errors that are reported after `tuning::give_up_after`: all that equal `condition::unavailable`; missing_node;
///   transaction_conflict, if Consul refuses a write for an unknown reason; reply_too_large of a write. If the process
///   has a place in the cluster's queue, it keeps the place, and the acquire waits until the lease of the place's
///   session expires: see doc/reference/errors.md. While users of this object hold all slots, an acquire waits for one
///   of them.
/// - Cancellation: terminal, partial, total. The acquire completes with operation_aborted and takes no slot. A slot
///   that is granted at that moment goes to the next waiter or is released. Only an idle session stays in Consul, for a
///   while.
/// - Lifetimes: the object that `acquire_options::diag` points to must outlive the operation. The semaphore object need
///   not.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the semaphore object may be destroyed at any time. Waiting acquires then fail with error::closed. Held
/// slots stay held until they are released; then the sessions are destroyed in the background. `close` also ends the
/// held slots, and reports when everything is done.
///
/// When `io_context::run` returns: a semaphore that has a session keeps the client's execution context running. An idle
/// session is kept for `tuning::session_idle_timeout` (10 s). So, while the semaphore exists, `run` returns about 10 s
/// after the last release. After `close` has completed, `run` returns soon. After the semaphore and all of its slots
/// are destroyed, `run` returns as soon as the sessions are destroyed. The same is true of `mutex` and `mutex_set`.
///
/// Busy threads: if the application's threads are busy for long, renewals may be late. Give the client an execution
/// context and a thread of its own.
///
/// Connections: a semaphore that is held or waited for usually has one or two blocking queries pending, and up to ten
/// if this process holds several slots or numbers and many contenders wait. A client runs at most
/// `consul::config::blocking_max` (32) blocking queries at once. Semaphores beyond that number take turns, and may see
/// grants and losses about 10 s later, or more if they outnumber it several times. If a semaphore's turn does not come
/// within `tuning::outage_grace`, it loses its slots (loss_reason::watch_failed). The log then names the option.
///
/// <!-- cut from example/in_the_headers.cpp: semaphore -->
/// ```cpp
/// asio::awaitable<void> limited(holdfast::consul::client consul) {
///   holdfast::semaphore sem(consul, {.prefix = "service/reports", .limit = 3});
///   holdfast::slot slot = co_await sem.acquire();  // waits while the cluster has three holders
///   co_await write_report();
///   co_await slot.release();
///   const holdfast::slot other = co_await sem.try_acquire();  // empty if none is free at once
///   if (other) say("there was a slot at once");
///   co_await sem.close();
/// }
/// ```
class HOLDFAST_EXPORT semaphore : public slot_source {
public:
  /// Creates an empty object.
  semaphore() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix, invalid_limit, invalid_ttl, invalid_option.
  semaphore(const lock_store& where, semaphore_options options);

  const std::string& prefix() const noexcept;
  /// The configured limit. With `semaphore_options::use_recorded_limit`, the limit that the record had when it was last
  /// read, and before the first read the configured limit.
  std::uint32_t limit() const noexcept;

  /// Acquires one slot. Completes when the slot is granted, without a time limit. Errors, cancellation and lifetimes:
  /// see the class comment.
  template <detail::slot_token<slot> Token = throwing_t>
  auto acquire(Token&& token = {}) {
    return initiate<slot>(acquire_options(), std::forward<Token>(token));
  }
  /// Acquires `options.count` slots: all of them, or none. Completes when all are granted, with one handle for all.
  /// Later acquires of this object do not overtake it.
  template <detail::slot_token<slot> Token = throwing_t>
  auto acquire(acquire_options options, Token&& token = {}) {
    return initiate<slot>(options, std::forward<Token>(token));
  }
  /// Acquires `count` slots, as above.
  template <detail::slot_token<slot> Token = throwing_t>
  auto acquire(std::uint32_t count, Token&& token = {}) {
    return initiate<slot>(acquire_options{.count = count}, std::forward<Token>(token));
  }

  /// Acquires one slot if that is possible without waiting for a release. Reads the state in Consul if necessary.
  /// Completes with an empty slot if too few slots are free, if other acquires of this object already wait, or if
  /// other processes have written the record first three times.
  template <detail::slot_token<slot> Token = throwing_t>
  auto try_acquire(Token&& token = {}) {
    return initiate<slot>(detail::once(acquire_options()), std::forward<Token>(token));
  }
  template <detail::slot_token<slot> Token = throwing_t>
  auto try_acquire(acquire_options options, Token&& token = {}) {
    return initiate<slot>(detail::once(options), std::forward<Token>(token));
  }

  /// Acquires one slot, but waits for at most `duration`. Completes with an empty slot if none was free in that time,
  /// and fails if Consul has not answered by then. With a `duration` of zero it does the same as `try_acquire`.
  template <detail::slot_token<slot> Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, Token&& token = {}) {
    return initiate<slot>(detail::within(duration, acquire_options()), std::forward<Token>(token));
  }
  template <detail::slot_token<slot> Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, acquire_options options, Token&& token = {}) {
    return initiate<slot>(detail::within(duration, options), std::forward<Token>(token));
  }
};

}  // namespace holdfast

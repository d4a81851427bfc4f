// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/consul/client.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/options.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/with_slot.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

/// Identifies one hold of a mutex, as Consul's session documentation defines it: the key, how often it has been locked,
/// and the session that has locked it. The holder sends it with its requests, and a receiver asks Consul by `verify`
/// whether the hold still lasts.
///
/// Sequencers do not order two holds. The lock index starts again when the key is deleted, as happens when the session
/// of a holder ends. To order holds, use `slot::fencing_token`, which grows with each grant.
struct sequencer {
  std::string key;
  std::uint64_t lock_index = 0;
  std::string session;
  /// The key's CreateIndex. With it, `verify` detects a key that was deleted and then locked again by the same session.
  /// 0 means unknown, as in sequencers of other clients; then it is not compared.
  std::uint64_t create_index = 0;
  bool operator==(const sequencer&) const = default;
};

namespace detail {

/// A sequencer that `verify` checks, and the store for it.
class verification;

HOLDFAST_EXPORT std::shared_ptr<verification> make_verification(const lock_store& where, sequencer claimed);
HOLDFAST_EXPORT asio::any_io_executor executor_of(const verification&) noexcept;
HOLDFAST_EXPORT void start_verify(const std::shared_ptr<verification>&, pending<bool>&&);
HOLDFAST_EXPORT void start_sequencer(const std::shared_ptr<slot_impl>&, pending<sequencer>&&);

}  // namespace detail

/// A held mutex, from an operation of `mutex` or from `mutex_set::try_lock`. It is a `slot` with `count()` 1. Pass its
/// `sequencer_of` to other processes. Threads and lifetimes: as for `slot`.
class HOLDFAST_EXPORT held_mutex : public slot {
public:
  /// Creates an empty handle.
  held_mutex() noexcept = default;

protected:
  template <class To, class From, class Handler>
  friend struct detail::converting;
  explicit held_mutex(hold&& locked) noexcept : slot(std::move(locked)) {}
};

/// A distributed mutex over Consul. At most one of the processes that use the same key holds it. It is a semaphore with
/// one slot whose key follows HashiCorp's rules: a Go program with `api.Lock`, or `consul lock -n 1`, may take part.
///
/// Waiters queue as those of a `semaphore` do: first in the process, then in the cluster, with an entry below the key
/// for each contender. When the mutex is released, one write hands it to the next contender in the queue. In a long
/// queue most other waiters are not woken. Clients of other kinds have no entry. They get the mutex when it is unlocked
/// and no contender with an entry is granted it.
///
/// Completion tokens, executors and allocators: as for `semaphore`. `lock`, `try_lock` and `try_lock_for` have this in
/// common:
///
/// - Signature: void(error_code, held_mutex).
/// - Errors: those of a semaphore's acquire, with not_a_mutex instead of not_a_semaphore. limit_conflict,
///   corrupt_record and too_many_slots do not occur.
/// - Cancellation: terminal, partial, total. The operation completes with operation_aborted and does not lock the
///   mutex. If the mutex is granted at that moment, it goes to the next waiter or is released.
/// - Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The mutex object need
///   not.
///
/// Threads, lifetimes, connections: as for `semaphore`.
///
/// <!-- cut from example/in_the_headers.cpp: mutex -->
/// ```cpp
/// asio::awaitable<void> alone(holdfast::consul::client consul) {
///   holdfast::mutex mutex(consul, {.key = "service/migration"});
///   holdfast::held_mutex lock = co_await mutex.lock();
///   const holdfast::sequencer proof = co_await holdfast::sequencer_of(lock);  // for another process
///   const bool is_held = co_await holdfast::verify(consul, proof);
///   if (is_held) say("the lock is held");
///   co_await lock.release();
///   co_await mutex.close();
/// }
/// ```
class HOLDFAST_EXPORT mutex : public slot_source {
public:
  /// Creates an empty object.
  mutex() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix (for the key), invalid_ttl, invalid_option.
  mutex(const lock_store& where, mutex_options options);

  const std::string& key() const noexcept;

  /// Locks the mutex. Completes when it is locked, without a time limit.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto lock(Token&& token = {}) {
    return initiate<held_mutex>(operation_options(), std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto lock(operation_options options, Token&& token = {}) {
    return initiate<held_mutex>(options, std::forward<Token>(token));
  }
  /// Locks the mutex if that is possible without waiting for a release. Completes with an empty handle if the mutex is
  /// held or in its lock delay, if other operations of this object already wait for it, or if other processes wrote the
  /// key first three times.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(Token&& token = {}) {
    return initiate<held_mutex>(detail::once(operation_options()), std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(operation_options options, Token&& token = {}) {
    return initiate<held_mutex>(detail::once(options), std::forward<Token>(token));
  }
  /// Locks the mutex, but waits for at most `duration`. Completes with an empty handle if the mutex was not free in
  /// that time, and fails if Consul has not answered by then.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock_for(std::chrono::nanoseconds duration, Token&& token = {}) {
    return initiate<held_mutex>(detail::within(duration, operation_options()), std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock_for(std::chrono::nanoseconds duration, operation_options options, Token&& token = {}) {
    return initiate<held_mutex>(detail::within(duration, options), std::forward<Token>(token));
  }
};

/// Reads the sequencer of `held` from Consul. Completes with the sequencer after one read.
///
/// Signature: void(error_code, sequencer).
/// Errors: not_held, if the handle is empty, or if the slot was released or lost before. slot_lost, if Consul answers
/// that this slot's session has not locked the key. Also those of `consul::client::get`.
/// Cancellation: not supported. The operation ends at the deadline of its request.
/// Lifetimes: the handle may be destroyed before the operation completes.
template <class Token = throwing_t>
auto sequencer_of(const held_mutex& held, Token&& token = {}) {
  return detail::begin_operation<sequencer>(
      detail::slot_impl_of(held), detail::calling<detail::start_sequencer>(), std::forward<Token>(token));
}

/// Asks Consul whether the hold that `claimed` identifies still lasts. Use it in a process that receives requests from
/// a holder; that process needs only a client.
///
/// Completes with true if the hold lasts. The read is consistent, so the result was true when Consul answered. The hold
/// may have ended since. If the ACL token may not read the key, Consul before 1.11 hides it, and the result is false.
/// Later versions say so to requests with a token. Then the operation fails with permission_denied.
///
/// Signature: void(error_code, bool).
/// Errors: those that the comment of class `consul::client` lists for every operation.
/// Cancellation: terminal, partial, total. It completes with operation_aborted. It never writes anything.
/// Threads: may be called from any thread.
template <class Token = throwing_t>
auto verify(const lock_store& where, sequencer claimed, Token&& token = {}) {
  auto claim = detail::make_verification(where, std::move(claimed));
  return detail::begin_operation<bool>(std::move(claim), detail::calling<detail::start_verify>(),
                                       std::forward<Token>(token));
}

namespace detail {

template <class Body>
asio::awaitable<void> lock_and_run(mutex& m, Body body) {
  held_mutex held = co_await m.lock();
  co_await with_held(std::move(held), std::move(body));
}

}  // namespace detail

/// Locks the mutex, runs `body(held_mutex&)` and releases the mutex: see `with_slot`.
template <class Body>
asio::awaitable<void> with_lock(mutex& m, Body&& body) {
  detail::check_body<Body>();
  return detail::lock_and_run<std::decay_t<Body>>(m, std::forward<Body>(body));
}

}  // namespace holdfast

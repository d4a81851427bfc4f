#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/consul/client.hpp>
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

/// Names one hold of a mutex to whoever receives requests from its holder, as Consul's session documentation defines
/// it: the key, how often it has been locked, and the session that has locked it. `verify` asks Consul whether that
/// hold lasts. It says nothing of the order of two holds: the lock index starts anew when the key is deleted, as it is
/// when the session of a holder ends. `slot::fencing_token` grows.
struct sequencer {
  std::string key;
  std::uint64_t lock_index = 0;
  std::string session;
  /// The key's CreateIndex, by which `verify` knows a key that was deleted and locked anew by the same session. 0, as
  /// in a sequencer that another client has made: not known, and not compared.
  std::uint64_t create_index = 0;
  bool operator==(const sequencer&) const = default;
};

namespace detail {

/// A claim under examination.
struct verification {
  consul::client client;
  sequencer claimed;
};

asio::any_io_executor executor_of(const verification&) noexcept;
void start_verify(const std::shared_ptr<verification>&, pending<bool>&&);
void start_sequencer(const std::shared_ptr<slot_impl>&, pending<sequencer>&&);

}  // namespace detail

/// A mutex in your hands, from `mutex::lock` or `mutex_set::try_lock`: a `slot`, with all that one can do, of which the
/// cluster has one. `sequencer_of` names it to others. Threads, lifetimes: as for `slot`.
class held_mutex : public slot {
public:
  /// Empty.
  held_mutex() noexcept = default;

protected:
  template <class To, class From, class Handler>
  friend struct detail::converting;
  explicit held_mutex(slot&& locked) noexcept : slot(std::move(locked)) {}
};

/// A distributed mutex over Consul: at most one of all who agree on the key holds it. It is a semaphore of one slot
/// whose key is HashiCorp's: a Go program with `api.Lock`, or `consul lock -n 1`, may take part.
///
/// Its waiters queue as those of a `semaphore` do: here first, and then by entries below the key; whoever lets go of
/// the mutex hands it, in one write, to the session that comes next, which is the only one that hears of it. Clients of
/// other kinds have no entry: they get the mutex when it is let go and no entry waits.
///
/// Operations: as for `semaphore`. Of every lock:
///
/// - Signature: void(error_code, held_mutex).
/// - Errors: as of a semaphore's acquires, but that not_a_mutex takes the place of not_a_semaphore, and limit_conflict,
///   corrupt_record and too_many_slots do not occur.
/// - Cancellation: terminal, partial, total; operation_aborted, and it is not locked: if it is granted at that moment
///   it goes to the next waiter or back.
/// - Lifetimes: `operation_options::diag` must outlive the operation; the handle need not.
///
/// Threads, lifetimes, connections: as for `semaphore`.
class mutex : public slot_source {
public:
  /// Empty.
  mutex() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix (of the key), invalid_ttl, invalid_option.
  mutex(const lock_store& where, mutex_options options);

  const std::string& key() const noexcept;

  /// Waits for the mutex, however long that takes.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto lock(Token&& token = {}) {
    return initiate<held_mutex>({}, std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto lock(operation_options options, Token&& token = {}) {
    return initiate<held_mutex>({.diag = options.diag}, std::forward<Token>(token));
  }
  /// One look, no waiting: completes with an empty handle if the mutex is held, or others wait for it here already.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(Token&& token = {}) {
    return initiate<held_mutex>({.once = true}, std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(operation_options options, Token&& token = {}) {
    return initiate<held_mutex>({.once = true, .diag = options.diag}, std::forward<Token>(token));
  }
  /// Waits for at most `duration`; completes with an empty slot if it was not had in that time.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock_for(std::chrono::nanoseconds duration, Token&& token = {}) {
    return initiate<held_mutex>({.within = duration}, std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock_for(std::chrono::nanoseconds duration, operation_options options, Token&& token = {}) {
    return initiate<held_mutex>({.within = duration, .diag = options.diag}, std::forward<Token>(token));
  }
};

/// Reads the sequencer of a hold from Consul.
///
/// Signature: void(error_code, sequencer).
/// Errors: not_held (the slot is empty, was released, or lost before), slot_lost (Consul says that the key is not
/// locked by it), and those of `consul::client::get`.
/// Cancellation: none; it ends by its own deadline.
/// Lifetimes: the handle may be destroyed before.
template <class Token = throwing_t>
auto sequencer_of(const held_mutex& held, Token&& token = {}) {
  return detail::begin_operation_if_held<sequencer>(detail::impl_of(held), detail::calling<detail::start_sequencer>(),
                                                    std::forward<Token>(token));
}

/// Whether the hold that `claimed` names lasts: for the receiving side, which needs nothing but a client. Consul is
/// asked for a consistent answer. It was true when Consul answered; by the time that the answer is here it may not be.
///
/// Signature: void(error_code, bool).
/// Errors: those of `consul::client::get`.
/// Cancellation: terminal, partial, total; operation_aborted, and nothing stays in Consul.
/// Threads: from any thread.
template <class Token = throwing_t>
auto verify(consul::client client, sequencer claimed, Token&& token = {}) {
  auto claim = std::make_shared<detail::verification>();
  claim->client = std::move(client);
  claim->claimed = std::move(claimed);
  return detail::begin_operation<bool>(std::move(claim), detail::calling<detail::start_verify>(),
                                       std::forward<Token>(token));
}

/// Locks the mutex and runs `body(held_mutex&)`: see `with_slot`.
template <class Body>
asio::awaitable<void> with_lock(mutex& m, Body body) {
  held_mutex held = co_await m.lock();
  co_await detail::with_held(std::move(held), std::move(body));
}

}  // namespace holdfast

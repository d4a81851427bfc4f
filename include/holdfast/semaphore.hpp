#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/options.hpp>
#include <holdfast/slot.hpp>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace holdfast {

/// What one semaphore or mutex did in this process since its construction; `waiting`, `sessions` and `held` are levels.
struct semaphore_statistics {
  std::uint64_t granted = 0;   ///< slots handed to callers
  std::uint64_t handoffs = 0;  ///< of these: from one caller to the next, without a request
  std::uint64_t lost = 0;
  std::uint64_t waiting = 0;
  std::uint64_t sessions = 0;
  std::uint64_t held = 0;
};

namespace detail {

class driver;

struct acquire_request {
  std::uint32_t count = 1;
  bool once = false;
  std::optional<std::chrono::nanoseconds> within{};
  diagnostics* diag = nullptr;
};

/// This does not compile when `acquire_options` gets another member. Pass the member on here, and let
/// `unit.runtime_options` expect its value.
inline acquire_request request_of(const acquire_options& options, bool once,
                                  std::optional<std::chrono::nanoseconds> within) {
  const auto& [count, diag] = options;
  return {.count = count, .once = once, .within = within, .diag = diag};
}

const asio::any_io_executor& executor_of(const driver&) noexcept;
void start_acquire(const std::shared_ptr<driver>&, const acquire_request&, pending<slot>&&);
void start_close(const std::shared_ptr<driver>&, pending<>&&);

template <class Token, class Held = slot>
concept slot_token = asio::completion_token_for<Token, void(error_code, Held)>;

}  // namespace detail

/// What `semaphore`, `mutex` and `mutex_set` have in common: where slots come from. Each of them is one; there is
/// nothing else to make of it. Of an empty one only assignment, destruction and `valid()` are allowed.
///
/// Operations: as for `semaphore`.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
class slot_source {
public:
  using executor_type = asio::any_io_executor;

  /// Whether it is not empty.
  bool valid() const noexcept { return impl_ != nullptr; }
  /// The client's.
  executor_type get_executor() const noexcept { return detail::executor_of(*impl_); }
  semaphore_statistics statistics() const noexcept;

  /// Ends it: those who wait fail with error::closed, what is held is lost (loss_reason::closed), everything in Consul
  /// is given back and the sessions are destroyed. It waits until the handles of lost slots are released or destroyed,
  /// `tuning::give_up_after` at most: so long nobody else gets those slots. Completes when all is given back, or after
  /// `tuning::give_up_after` more.
  ///
  /// So release or destroy your own handles first. If the caller of `close` still has one in its hands, `close` takes
  /// `tuning::give_up_after` (5 s) and succeeds.
  ///
  /// Signature: void(error_code).
  /// Errors: timed_out (what is left expires with its sessions).
  /// Cancellation: none.
  /// Lifetimes: the handle may be destroyed before.
  template <class Token = throwing_t>
  auto close(Token&& token = {}) {
    return detail::begin_operation<>(impl_, detail::calling<detail::start_close>(), std::forward<Token>(token));
  }

protected:
  slot_source() noexcept = default;
  slot_source(slot_source&&) noexcept = default;
  slot_source& operator=(slot_source&& other) noexcept;
  ~slot_source();

  explicit slot_source(std::shared_ptr<detail::driver> impl) noexcept : impl_(std::move(impl)) {}
  // `Held` is a slot, or what is made of one.
  template <class Held, class Token>
  auto initiate(detail::acquire_request request, Token&& token) {
    auto start = [request](const std::shared_ptr<detail::driver>& impl, detail::pending<slot>&& handler) {
      detail::start_acquire(impl, request, std::move(handler));
    };
    if constexpr (std::is_same_v<Held, slot>)
      return detail::begin_operation<slot>(impl_, std::move(start), std::forward<Token>(token));
    else
      return detail::begin_operation_as<Held, slot>(impl_, std::move(start), std::forward<Token>(token));
  }

  std::shared_ptr<detail::driver> impl_;
};

/// A distributed counting semaphore over Consul: at most `limit` slots are held at any time by all processes that agree
/// on prefix, lock key and limit.
///
/// Any number of coroutines of one process may wait: they queue here, first come first served, and share at most
/// `limit` Consul sessions. A released slot goes to the next local waiter without a request while nobody waits
/// elsewhere or `tuning::local_handoff_time` lasts; otherwise one write moves it to whoever waits longest in the
/// cluster.
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by
/// default the client's, never inside the initiating function. Their associated allocator gives the memory in which
/// they wait, and, where the client's executor is an `io_context`'s, that in which they are posted. There is no
/// `rebind_executor`, nor a default token by the executor (`asio::default_completion_token_t`): every handle has an
/// `asio::any_io_executor`, and `co_await sem.acquire()` names no token in a coroutine on any executor. Of every
/// acquire:
///
/// - Signature: void(error_code, slot).
/// - Errors, at once: closed, too_many_waiters, too_many_slots (with `use_recorded_limit` when its turn comes, after a
///   look at the record); not_a_semaphore, limit_conflict, corrupt_record; permission_denied, invalid_ttl,
///   plain_http_refused, malformed_reply, reply_too_large, bad_request.
/// - Errors, after `tuning::give_up_after`: what `condition::unavailable` stands for. A process that has a place in the
///   queue keeps it, and waits, for as long as the lease of the place's session lasts: see doc/reference/errors.md.
/// - Cancellation: terminal, partial, total; operation_aborted, and no slot is taken: one that is granted at that
///   moment goes to the next waiter or back. Nothing stays in Consul but, for a while, an idle session.
/// - Lifetimes: `acquire_options::diag`, which gets the words of a failure, must outlive it; the handle need not.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: the handle may be destroyed at any time: waiting acquires fail with error::closed, held slots stay held
/// until released, then the sessions are destroyed in the background. `close` does it all and waits.
///
/// When `io_context::run` returns: a semaphore with a session keeps the client's execution context running. An idle
/// session is kept for `tuning::session_idle_timeout` (10 s). So `run` returns up to 10 s after the last release if the
/// semaphore still exists. It returns at once after `close` has completed, and as soon as the sessions have ended after
/// the semaphore and all of its slots are destroyed. The same is true of `mutex` and `mutex_set`.
///
/// Where the application's threads are busy for long, give the
/// client a context and a thread of its own, so that renewals are on time.
///
/// Connections: a semaphore that is held or waited for has one blocking query under way, or two. A client has
/// `consul::config::blocking_max` (32) of them at once; semaphores beyond that take turns, and may see grants and
/// losses 10 s later. One whose turn does not come in time loses its slots, after `tuning::outage_grace`
/// (loss_reason::watch_failed), and the log names the option.
class semaphore : public slot_source {
public:
  /// Empty.
  semaphore() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix, invalid_limit, invalid_ttl, invalid_option.
  semaphore(const lock_store& where, semaphore_options options);

  const std::string& prefix() const noexcept;
  /// As configured, or, with `semaphore_options::use_recorded_limit`, as the record was last seen to say.
  std::uint32_t limit() const noexcept;

  /// Waits for a slot, however long that takes.
  template <detail::slot_token Token = throwing_t>
  auto acquire(Token&& token = {}) {
    return initiate<slot>({}, std::forward<Token>(token));
  }
  /// Waits for `options.count` slots: all of them, or none. Later acquires of this process do not overtake.
  template <detail::slot_token Token = throwing_t>
  auto acquire(acquire_options options, Token&& token = {}) {
    return initiate<slot>(detail::request_of(options, false, {}), std::forward<Token>(token));
  }
  /// The same for `count` slots.
  template <detail::slot_token Token = throwing_t>
  auto acquire(std::uint32_t count, Token&& token = {}) {
    return initiate<slot>({.count = count}, std::forward<Token>(token));
  }

  /// One look, no waiting: completes with an empty slot if not enough are free, or others wait here already.
  template <detail::slot_token Token = throwing_t>
  auto try_acquire(Token&& token = {}) {
    return initiate<slot>({.once = true}, std::forward<Token>(token));
  }
  template <detail::slot_token Token = throwing_t>
  auto try_acquire(acquire_options options, Token&& token = {}) {
    return initiate<slot>(detail::request_of(options, true, {}), std::forward<Token>(token));
  }

  /// Waits for at most `duration`; completes with an empty slot if none was granted in that time. With no time at all
  /// it is `try_acquire`.
  template <detail::slot_token Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, Token&& token = {}) {
    return initiate<slot>({.within = duration}, std::forward<Token>(token));
  }
  template <detail::slot_token Token = throwing_t>
  auto try_acquire_for(std::chrono::nanoseconds duration, acquire_options options, Token&& token = {}) {
    return initiate<slot>(detail::request_of(options, false, duration), std::forward<Token>(token));
  }
};

}  // namespace holdfast

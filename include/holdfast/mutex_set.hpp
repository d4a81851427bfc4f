#pragma once

#include <holdfast/diagnostics.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/options.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/slot.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

namespace detail {

void start_try_lock(const std::shared_ptr<driver>&, const std::string& name, diagnostics*, pending<slot>&&);

}  // namespace detail

/// Any number of mutexes below a prefix, for workers that share a long list of tasks: one session holds them all, and
/// what is asked for and given back at the same time goes together, up to 62 locks in one request. Nobody waits for a
/// lock: `try_lock` tells whether it was free.
///
/// The lock NAME is the key PREFIX/NAME, as of `holdfast::mutex`, Go's `api.Lock` or `consul lock -n 1`, which may take
/// part. Its key goes when it is released. See doc/reference/mutex_set.md.
///
/// A lock in use is a `held_mutex`. If the session is lost, all of them are. `with_slot(std::move(lock), body)` runs
/// `body(held_mutex&)` while a lock is held.
///
/// `close` waits for the handles of the locks in use, `tuning::give_up_after` at most: release them first.
///
/// Operations: as for `semaphore`. Of `try_lock`:
///
/// - Signature: void(error_code, held_mutex).
/// - Errors, at once: closed, too_many_waiters; invalid_prefix (of the name); permission_denied, invalid_ttl,
///   plain_http_refused, malformed_reply, reply_too_large, bad_request; transaction_conflict.
/// - Errors, after `tuning::give_up_after`: what `condition::unavailable` stands for.
/// - Cancellation: terminal, partial, total; operation_aborted: a lock that is granted at that moment is given back.
/// - Lifetimes: `operation_options::diag` must outlive the operation; the handle need not.
///
/// Threads, lifetimes: as for `semaphore`.
///
/// Connections: there is one blocking query, however many locks are in use.
class mutex_set : public slot_source {
public:
  /// Empty.
  mutex_set() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix, invalid_ttl, invalid_option.
  mutex_set(const lock_store& where, mutex_set_options options);

  const std::string& prefix() const noexcept;

  /// One look, no waiting: completes with an empty slot if somebody has the lock, here or elsewhere, or asks for it
  /// here already. While it is being given back here it waits for the end of that. The rules of names are those of
  /// `prefix`, and they do not begin with a dot.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(std::string name, Token&& token = {}) {
    return initiate(std::move(name), nullptr, std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(std::string name, operation_options options, Token&& token = {}) {
    return initiate(std::move(name), options.diag, std::forward<Token>(token));
  }

private:
  template <class Token>
  auto initiate(std::string name, diagnostics* diag, Token&& token) {
    auto start = [name = std::move(name), diag](const std::shared_ptr<detail::driver>& impl,
                                                detail::pending<slot>&& handler) {
      detail::start_try_lock(impl, name, diag, std::move(handler));
    };
    return detail::begin_operation_as<held_mutex, slot>(impl_, std::move(start), std::forward<Token>(token));
  }
};

}  // namespace holdfast

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
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

HOLDFAST_EXPORT void start_try_lock(const std::shared_ptr<shell>&, const std::string& name,
                                    const operation_options& options, pending<hold>&&);

}  // namespace detail

/// Any number of mutexes below a prefix, for workers that process a long list of tasks. One session holds all of them.
/// Requests to lock and to release that are made at the same time are sent together, up to 62 locks or 31 releases in
/// one request. No operation waits until another holder releases a lock: `try_lock` reports whether the lock was free.
///
/// The lock NAME has the key PREFIX/NAME. A `holdfast::mutex`, Go's `api.Lock` and `consul lock -n 1` may use the same
/// key. The key is deleted when the lock is released. See doc/reference/mutex_set.md.
///
/// Each held lock is a `held_mutex`. If the session is lost, all locks are lost. `with_slot(std::move(lock), body)`
/// runs `body(held_mutex&)` while a lock is held.
///
/// `close` waits until the handles of the held locks are released or destroyed, but not longer than
/// `tuning::give_up_after`. Release them before you call `close`.
///
/// Completion tokens, executors and allocators: as for `semaphore`. For `try_lock`:
///
/// - Signature: void(error_code, held_mutex).
/// - Errors that are reported at once: closed, too_many_waiters, invalid_prefix (for the name), permission_denied,
///   invalid_ttl, plain_http_refused, certificate_refused, client_certificate_refused, reply_too_large,
///   bad_request, too_large, transaction_conflict.
/// - Errors that are reported after `tuning::give_up_after`: all that equal `condition::unavailable`; missing_node;
///   transaction_conflict, if Consul refuses a whole batch.
/// - Cancellation: terminal, partial, total. The operation completes with operation_aborted. A lock that is granted at
///   that moment is released.
/// - Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The set object need
///   not.
///
/// Threads, lifetimes: as for `semaphore`.
///
/// Connections: a set has one blocking query, no matter how many locks are held.
///
/// <!-- cut from example/in_the_headers.cpp: mutex_set -->
/// ```cpp
/// asio::awaitable<void> one_of_each(holdfast::consul::client consul, std::vector<std::string> users) {
///   holdfast::mutex_set locks(consul, {.prefix = "service/users"});
///   for (const std::string& user : users) {
///     holdfast::slot lock = co_await locks.try_lock(user);  // all locks share one session
///     if (!lock) continue;                                  // another process does this user
///     co_await write_report();
///     co_await lock.release();
///   }
///   co_await locks.close();
/// }
/// ```
class HOLDFAST_EXPORT mutex_set : public slot_source {
public:
  /// Creates an empty object.
  mutex_set() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix, invalid_ttl, invalid_option.
  mutex_set(const lock_store& where, mutex_set_options options);

  const std::string& prefix() const noexcept;

  /// Locks NAME if it is free. Completes with an empty handle if the lock is held, in this process or elsewhere, if it
  /// is in its lock delay, or if another operation of this set already asks for it. The same is so while this set has
  /// lost the lock and its handle is not released. If this set is just releasing the lock, or if a lost session of this
  /// set may still have it locked, the operation first waits until that is over. It fails with timed_out if the lost
  /// session has not ended within `tuning::give_up_after`.
  ///
  /// A name follows the rules of `prefix`, but must not begin with a dot or end with a slash.
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(std::string name, Token&& token = {}) {
    return initiate(std::move(name), operation_options(), std::forward<Token>(token));
  }
  template <detail::slot_token<held_mutex> Token = throwing_t>
  auto try_lock(std::string name, operation_options options, Token&& token = {}) {
    return initiate(std::move(name), options, std::forward<Token>(token));
  }

private:
  template <class Token>
  auto initiate(std::string name, operation_options options, Token&& token) {
    auto start = [name = std::move(name), options](const std::shared_ptr<detail::shell>& impl,
                                                   detail::pending<hold>&& handler) {
      detail::start_try_lock(impl, name, options, std::move(handler));
    };
    return detail::begin_operation_as<held_mutex, hold>(impl_, std::move(start), std::forward<Token>(token));
  }
};

}  // namespace holdfast

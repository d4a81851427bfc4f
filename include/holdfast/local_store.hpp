// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <concepts>
#include <holdfast/detail/export.hpp>
#include <holdfast/lock_store.hpp>
#include <memory>

namespace holdfast {

namespace local {

class local_context;

}  // namespace local

/// A store in the memory of this process, for development and tests. Locks behave on it as they do on Consul: the order
/// of waiters, cancellation, losses, `close`, elections, mutex sets, administration, observers, `verify`. It needs no
/// server and no network. It is in the library `holdfast::testing`.
///
/// Locks share slots if their stores are copies of each other, or come from `on`. Two stores that were constructed
/// share nothing.
///
/// Do not use it in place of Consul when Consul cannot be reached. Each process would have a limit of its own, and its
/// fencing tokens could not be compared with Consul's. `slot::fence_checks` throws `operation_not_supported` here,
/// because there is no transaction of Consul that could contain the checks.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the object is cheap to copy, and locks keep the store alive. It may outlive its execution context. It
/// starts no threads. While a lock of a context waits or holds, the context has work.
///
/// fork(): as for `slot`. A child makes a new store.
///
/// <!-- cut from example/in_the_headers.cpp: local_store -->
/// ```cpp
/// asio::awaitable<void> test_of_a_loss(holdfast::local_store store) {  // holdfast::local_store store(io);
///   holdfast::mutex here(store, {.key = "k"}), there(store, {.key = "k"});
///   holdfast::held_mutex lock = co_await here.lock();
///   const holdfast::held_mutex none = co_await there.try_lock();
///   if (!none) say("it is locked");
///   store.end_sessions();
///   const holdfast::loss_reason why = co_await lock.wait_lost();
///   say("lost in the test: " + std::string(to_string(why)));
/// }
/// ```
class HOLDFAST_EXPORT local_store {
public:
  using executor_type = asio::any_io_executor;

  /// Creates an empty store. Its locks run on `executor`.
  explicit local_store(const executor_type& executor);
  template <class Context>
    requires std::convertible_to<Context&, asio::execution_context&>
  explicit local_store(Context& context) : local_store(executor_type(context.get_executor())) {}

  /// The same store for locks that run on another executor, maybe of another execution context.
  local_store on(const executor_type& executor) const;
  template <class Context>
    requires std::convertible_to<Context&, asio::execution_context&>
  local_store on(Context& context) const {
    return on(executor_type(context.get_executor()));
  }

  // NOLINTNEXTLINE(google-explicit-constructor): as a `consul::client` does.
  operator lock_store() const;
  /// Empty once the execution context has been destroyed, and in a child of fork().
  executor_type get_executor() const;

  /// Ends all sessions, as an operator of Consul could. So each slot of each lock is lost (`session_invalidated`, or
  /// `not_accepted` if its grant was not accepted yet), and waiters queue again. Does nothing in a child of fork().
  void end_sessions() const;

private:
  friend class local::local_context;
  explicit local_store(std::shared_ptr<local::local_context> context) noexcept : context_(std::move(context)) {}

  std::shared_ptr<local::local_context> context_;
};

}  // namespace holdfast

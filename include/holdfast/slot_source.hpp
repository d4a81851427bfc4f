// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/options.hpp>
#include <holdfast/statistics.hpp>
#include <memory>
#include <utility>

namespace holdfast {

namespace detail {

class shell;
class statistics_access;

/// An acquire on its way from the caller to the shell, with all of the caller's options. The function `terms_of`
/// (src/runtime/terms_of.hpp) returns those that the core uses. If `acquire_options` gets another member, `terms_of`
/// does not compile, and neither does `unit.runtime_options`. Let that test expect the member's value.
struct acquire_request {
  // A request cannot be made without options. The constructors are implicit, so that a caller just passes its options.
  acquire_request(const acquire_options& all) : options(all) {}
  acquire_request(const operation_options& all) : options(acquire_options_of(all)) {}

  acquire_options options;
  bool once = false;  ///< try once, without waiting for a slot
  /// The longest wait. The maximum means that the wait is not limited.
  std::chrono::nanoseconds within = std::chrono::nanoseconds::max();

private:
  /// If `operation_options` gets another member, this function does not compile. Then pass the member on here.
  static acquire_options acquire_options_of(const operation_options& all) {
    const auto& [diag, trace_parent] = all;
    return {.diag = diag, .trace_parent = trace_parent};
  }
};

/// The request of a `try_acquire` with these options.
inline acquire_request once(acquire_request request) {
  request.once = true;
  return request;
}
/// The request of a `try_acquire_for` with these options.
inline acquire_request within(std::chrono::nanoseconds longest, acquire_request request) {
  request.within = longest;
  return request;
}

HOLDFAST_EXPORT const asio::any_io_executor& executor_of(const shell&) noexcept;
HOLDFAST_EXPORT void start_acquire(const std::shared_ptr<shell>&, const acquire_request&, pending<hold>&&);
HOLDFAST_EXPORT void start_close(const std::shared_ptr<shell>&, pending<>&&);

template <class Token, class Held>
concept slot_token = asio::completion_token_for<Token, void(error_code, Held)>;

}  // namespace detail

/// Base class of `semaphore`, `mutex` and `mutex_set`; not meant to be used directly.
///
/// Operations of an empty (default-constructed or moved-from) object complete with error::closed, on the handler's own
/// executor. It has no executor, its statistics are empty, and it has no name.
///
/// Completion tokens, executors and allocators: as described for `semaphore`.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
class HOLDFAST_EXPORT slot_source {
public:
  using executor_type = asio::any_io_executor;

  /// False if the object is empty.
  bool valid() const noexcept { return impl_ != nullptr; }
  /// The executor of the client or store. Empty if the object is empty, and once the execution context has been
  /// destroyed.
  executor_type get_executor() const noexcept {
    return impl_ ? executor_type(detail::executor_of(*impl_)) : executor_type();
  }
  lock_statistics statistics() const noexcept;

  /// Closes the semaphore, mutex or mutex set. Waiting acquires fail with error::closed. Held slots are lost
  /// (loss_reason::closed). Everything that this object has in Consul is released, and its sessions are destroyed.
  ///
  /// `close` first waits until all handles of the lost slots are released or destroyed, but not longer than
  /// `tuning::give_up_after`. During this time nobody else gets these slots. Then it releases everything in Consul. It
  /// completes when that is done, or after another `tuning::give_up_after`.
  ///
  /// Release or destroy your own handles before you call `close`. If the caller of `close` still has a handle, `close`
  /// takes `tuning::give_up_after` (5 s) and then succeeds.
  ///
  /// Signature: void(error_code).
  /// Errors: timed_out. In this case the rest is released when its sessions expire.
  /// Cancellation: not supported.
  /// Lifetimes: this object may be destroyed before the operation completes.
  template <class Token = throwing_t>
  auto close(Token&& token = {}) {
    return detail::begin_operation<>(impl_, detail::calling<detail::start_close>(), std::forward<Token>(token));
  }

protected:
  slot_source() noexcept = default;
  slot_source(slot_source&&) noexcept = default;
  slot_source& operator=(slot_source&& other) noexcept;
  ~slot_source();

  friend class detail::statistics_access;
  explicit slot_source(std::shared_ptr<detail::shell> impl) noexcept : impl_(std::move(impl)) {}
  /// `Held` is the handle that this kind of lock grants: `slot`, or a type that is derived from it.
  template <class Held, class Token>
  auto initiate(detail::acquire_request request, Token&& token) {
    auto start = [request](const std::shared_ptr<detail::shell>& impl, detail::pending<hold>&& handler) {
      detail::start_acquire(impl, request, std::move(handler));
    };
    return detail::begin_operation_as<Held, hold>(impl_, std::move(start), std::forward<Token>(token));
  }

  std::shared_ptr<detail::shell> impl_;
};

}  // namespace holdfast

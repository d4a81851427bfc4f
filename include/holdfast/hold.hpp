// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/loss_reason.hpp>
#include <iosfwd>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

namespace holdfast {

class hold;

enum class slot_state {
  empty,     ///< no slot: default-constructed, moved-from, or from a try that got none
  held,      ///< no renewal is overdue, and no watch has failed
  suspect,   ///< held, but a renewal is overdue or a watch has failed; the lease has not expired
  lost,      ///< no longer held; this is final
  released,  ///< the caller has released it; also a copy in a child of fork(), unless it was lost before
};

constexpr std::string_view to_string(slot_state state) noexcept {
  switch (state) {
    case slot_state::empty:
      return "empty";
    case slot_state::held:
      return "held";
    case slot_state::suspect:
      return "suspect";
    case slot_state::lost:
      return "lost";
    case slot_state::released:
      return "released";
  }
  return "unknown";
}
HOLDFAST_EXPORT std::ostream& operator<<(std::ostream& out, slot_state state);

namespace detail {

class hold_impl;

HOLDFAST_EXPORT const asio::any_io_executor& executor_of(const hold_impl&) noexcept;
HOLDFAST_EXPORT void start_release(const std::shared_ptr<hold_impl>&, pending<>&&);
HOLDFAST_EXPORT void start_wait_lost(const std::shared_ptr<hold_impl>&, pending<loss_reason>&&);
HOLDFAST_EXPORT void start_wait_revoked(const std::shared_ptr<hold_impl>&, pending<>&&);
HOLDFAST_EXPORT const std::shared_ptr<hold_impl>& impl_of(const hold&) noexcept;

}  // namespace detail

/// A handle to something that is held and can be lost: the base class of `slot`. It has what is the same wherever the
/// slot is kept. A function that takes a `hold&` works with every kind of slot, and so does `with_slot`.
///
/// The class comment of `slot` says when a hold is lost, and has the rules for completion tokens, threads, lifetimes
/// and fork().
class HOLDFAST_EXPORT hold {
public:
  /// Creates an empty handle.
  hold() noexcept = default;
  hold(hold&&) noexcept = default;
  hold& operator=(hold&& other) noexcept;
  ~hold() {
    if (impl_) give_back();
  }

  /// True if the handle is not empty, even if the slot has been lost or released.
  bool valid() const noexcept { return impl_ != nullptr; }
  explicit operator bool() const noexcept { return valid(); }

  slot_state state() const noexcept;
  /// True if the slot is held at this instant: it is neither lost nor released, and its lease has not expired. The
  /// lease is measured on a clock that also runs while the machine is suspended. False in a child of fork().
  bool held() const noexcept { return valid_for() > std::chrono::nanoseconds::zero(); }
  /// The time until the lease expires. Until then nobody else gets the slot. There are exceptions: an operator takes it
  /// away, Consul ends the session early, or another kind of client shares a semaphore on RabbitMQ. 0 if not held.
  std::chrono::nanoseconds valid_for() const noexcept;
  /// The reason of the loss. `loss_reason::none` if the slot was not lost.
  loss_reason lost_because() const noexcept;
  /// Explains the loss to a person, for example by the server's answers before the lease expired. Empty if the slot was
  /// not lost, or if there is nothing to add to the reason. It may also be empty for a moment after the lease has
  /// expired, until the library has noticed.
  diagnostics loss_details() const;
  /// A token that is stopped when the slot is lost, but not when it is released, and not by the destruction of the
  /// execution context. Its callbacks run on the client's executor. If that has one thread, they run before the
  /// handlers of `wait_lost`. A token that is first requested after the loss, or after the destruction of the context
  /// under a held slot, is stopped already. In a child of fork(), tokens from before the fork are never stopped, and a
  /// new token is stopped already. An empty handle returns a token that is never stopped.
  std::stop_token stop_token() const;

  /// Waits until the slot is lost. Completes with the reason; at once, if the slot is lost already.
  ///
  /// Signature: void(error_code, loss_reason).
  /// Errors: not_held, if the handle is empty, or if the slot is released before or during the wait.
  /// Cancellation: terminal, partial, total. It ends the wait and does not affect the slot.
  template <class Token = throwing_t>
  auto wait_lost(Token&& token = {}) const {
    return detail::begin_operation<loss_reason>(impl_, detail::calling<detail::start_wait_lost>(),
                                                std::forward<Token>(token));
  }

  /// True if an operator has asked for a slot in this handle (`semaphore_administration::revoke`), or on RabbitMQ has
  /// removed the slot from the semaphore. The slot stays held until it is released. It is not passed to the next waiter
  /// of this process. Once true, it stays true.
  bool revoked() const noexcept;
  /// Waits until an operator asks for the slot. Completes at once if an operator has asked already.
  ///
  /// Signature: void(error_code).
  /// Errors: slot_lost, if the slot is lost before or during the wait. not_held, if the handle is empty, or if the slot
  /// is released before or during the wait.
  /// Cancellation: terminal, partial, total. It ends the wait and does not affect the slot.
  template <class Token = throwing_t>
  auto wait_revoked(Token&& token = {}) const {
    return detail::begin_operation<>(impl_, detail::calling<detail::start_wait_revoked>(), std::forward<Token>(token));
  }

  /// Releases the slot to the next waiter of this process, or to the cluster.
  ///
  /// Completes at once if the process keeps the slot, for example for its next waiter. Otherwise it completes after a
  /// write, usually the first one. On Consul, an unknown outcome delays that until the slot's session is destroyed. If
  /// Consul does not answer, it fails when the lease expires (a lock of a `mutex_set`: after `give_up_after`), and the
  /// slot is free within two TTLs unless Consul elects a leader. On RabbitMQ it fails after `give_up_after`, or when
  /// the connection ends. The slot is then free one lease after the broker has dropped the connection.
  ///
  /// Signature: void(error_code).
  /// Errors: not_held, if the handle is empty or was released before. slot_lost. Or the error of the write.
  /// Cancellation: not supported. The slot is released in any case.
  template <class Token = throwing_t>
  auto release(Token&& token = {}) {
    return detail::begin_operation<>(impl_, detail::calling<detail::start_release>(), std::forward<Token>(token));
  }

protected:
  friend class detail::hold_impl;
  friend const std::shared_ptr<detail::hold_impl>& detail::impl_of(const hold&) noexcept;
  explicit hold(std::shared_ptr<detail::hold_impl> impl) noexcept : impl_(std::move(impl)) {}

private:
  void give_back() noexcept;

  std::shared_ptr<detail::hold_impl> impl_;
};

}  // namespace holdfast

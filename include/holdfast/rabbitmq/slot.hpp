// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/hold.hpp>
#include <utility>

namespace holdfast::rabbitmq {

/// A handle to a held slot of a semaphore on RabbitMQ, from `semaphore::acquire`.
///
/// The handle can be moved, not copied. Its destructor releases the slot in the background; it does not block or throw.
/// `release` does the same and reports when it is done. `hold::release` says what it waits for; here a failed release
/// closes the connection of the slot.
///
/// Loss: a slot can be lost at any time. Then the stop token fires and each `wait_lost` completes. When you notice a
/// loss, stop the work that the slot protects, and release or destroy the handle. The reasons are:
///
/// - session_invalidated: the connection of the slot has ended. Nobody else of this library gets the slot for one lease
///   after the last answer of the broker.
/// - removed: the queue of the holder is gone, or belongs to another. An operator may have deleted it.
/// - lease_expired: the broker has not answered for a lease less a tenth.
/// - application_silent: the application has not answered in time (`tuning::alive`). The connection is closed.
/// - closed: the semaphore or the client was closed, or the execution context was destroyed.
///
/// `revoked` is true when an administrator has removed the slot. It stays held until it is released.
///
/// There is no fencing token: RabbitMQ has nothing to make one of. Check `held` or `valid_for` before work that cannot
/// be undone.
///
/// Completion tokens, threads, lifetimes and fork(): as for `holdfast::slot`.
class HOLDFAST_EXPORT slot : public hold {
public:
  /// Creates an empty handle.
  slot() noexcept = default;

  /// The number of the slot, counted from 1. While this slot is held, no other holder has the same number. 0 if the
  /// handle is empty.
  std::uint32_t number() const noexcept;

protected:
  template <class To, class From, class Handler>
  friend struct holdfast::detail::converting;
  /// Only for what an acquire has granted.
  explicit slot(hold&& granted) noexcept : hold(std::move(granted)) {}
};

}  // namespace holdfast::rabbitmq

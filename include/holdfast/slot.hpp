// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fencing_token.hpp>
#include <holdfast/loss_reason.hpp>
#include <iosfwd>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

class slot;

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
std::ostream& operator<<(std::ostream& out, slot_state state);

namespace detail {

class slot_impl;

const asio::any_io_executor& executor_of(const slot_impl&) noexcept;
void start_release(const std::shared_ptr<slot_impl>&, pending<>&&);
void start_wait_lost(const std::shared_ptr<slot_impl>&, pending<loss_reason>&&);
void start_wait_revoked(const std::shared_ptr<slot_impl>&, pending<>&&);
const std::shared_ptr<slot_impl>& impl_of(const slot&) noexcept;

}  // namespace detail

/// A handle to one or more held slots of a semaphore, from `semaphore::acquire`.
///
/// The handle can be moved, not copied. Its destructor releases the slot in the background; it does not block or throw.
/// `release` does the same and reports when it is done. If the process dies, Consul ends its session one to two TTLs
/// after the last renewal. Then the slot is free again, or will be after `tuning::lock_delay`.
///
/// Loss: a slot can be lost at any time, for a reason of `loss_reason`. Then the stop token fires and each `wait_lost`
/// completes. When you notice a loss, stop the work that the slot protects, and release or destroy the handle. Until
/// you do, nobody else gets the slot, in this process or elsewhere. There are exceptions: Consul ends the session two
/// TTLs after the last renewal at the latest. An operator can take the slot away. `close` waits for
/// `tuning::give_up_after` at most. After loss_reason::not_accepted another process can take the slot back.
///
/// The lock is advisory: nothing stops a paused process from acting after its lease has expired. Check `held` or
/// `valid_for` before work that cannot be undone, and pass the `fencing_token` to the resource.
///
/// Operations take a completion token, by default `throwing`. A completion handler runs on its associated executor, by
/// default the client's executor. If the handle is empty, the default is `asio::system_executor`. It is never called
/// inside the initiating function.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same handle.
///
/// Lifetimes: a slot keeps the internals of its semaphore alive. The slot may outlive the execution context; then it is
/// not held. Its destructor may run while another thread destroys the context. The slot may be destroyed while its
/// operations are pending; this releases it.
///
/// fork(): the slot stays with the parent. In the child, the copy of the handle is not held. Its state is `released`
/// (or `lost`, if it was lost before), and its destructor does nothing. No operation of the copy may be called: the
/// operation sends nothing and does not complete. The same is true of copies of semaphores, mutexes, sets, elections
/// and clients. The child must not run the parent's execution context. It may create its own context with its own
/// clients. The library does not notice `vfork`, `_Fork` and a bare `clone`: after these, call only exec or `_exit`.
///
/// <!-- cut from example/in_the_headers.cpp: slot -->
/// ```cpp
/// asio::awaitable<void> careful(holdfast::consul::client consul, holdfast::slot slot) {
///   auto write = slot.fence_checks();  // Consul refuses the write if the slot is lost
///   write.push_back(holdfast::consul::txn_operation::set("service/state", slot.fencing_token().to_string()));
///   const auto reply = co_await consul.transact(std::move(write));
///   if (!reply.applied) say("the slot was lost");
///   const holdfast::loss_reason why = co_await slot.wait_lost();  // until an operator or an outage takes it
///   say("lost: " + std::string(to_string(why)));
/// }
/// ```
class slot {
public:
  slot() noexcept = default;
  slot(slot&&) noexcept = default;
  slot& operator=(slot&& other) noexcept;
  ~slot() {
    if (impl_) give_back();
  }

  /// True if the handle is not empty, even if the slot has been lost or released.
  bool valid() const noexcept { return impl_ != nullptr; }
  explicit operator bool() const noexcept { return valid(); }

  slot_state state() const noexcept;
  /// True if the slot is held at this instant: it is neither lost nor released, and its lease has not expired. The
  /// lease is measured on a clock that also runs while the machine is suspended. False in a child of fork().
  bool held() const noexcept { return valid_for() > std::chrono::nanoseconds::zero(); }
  /// The time until the lease expires. Until then nobody else gets the slot, unless an operator takes it away, or the
  /// session ends before its TTL, for example with its node. 0 if the slot is not held.
  std::chrono::nanoseconds valid_for() const noexcept;
  /// The reason of the loss. `loss_reason::none` if the slot was not lost.
  loss_reason lost_because() const noexcept;
  /// Explains the loss to a person, for example by Consul's answers to the renewals before a lease expired. Empty if
  /// the slot was not lost, or if there is nothing to add to the reason. It may also be empty for a moment after the
  /// lease has expired, until the library has noticed.
  diagnostics loss_details() const;
  /// The highest token of the slots in this handle; see `fencing_token`.
  holdfast::fencing_token fencing_token() const noexcept;
  /// The number of slots in this handle.
  std::uint32_t count() const noexcept;
  /// The number of each slot, if `semaphore_options::numbered` is set; otherwise empty. A number is lower than the
  /// limit at the time of the grant. While this slot is held, no other holder with `numbered` has the same number.
  std::vector<std::uint32_t> numbers() const;
  /// Returns operations by which Consul itself checks that this slot is held. Put them before your own operations in
  /// one `consul::client::transact`. Consul refuses the whole transaction (txn_refusal::conflict or missing_key) if the
  /// slot's session has ended, or if the slot was released or granted again. Consul refuses it even if this process has
  /// not noticed the loss yet. So a stale holder cannot write.
  ///
  /// There are two operations for each slot of `count()`. A transaction takes up to 64 operations, and up to 128 from
  /// Consul 1.14 on.
  ///
  /// The function throws system_error (slot_lost or not_held) if it knows that the slot is not held. It throws instead
  /// of returning an empty list, so that a caller cannot omit the checks by accident.
  ///
  /// The checks protect the hold of one process against other processes. They stay valid while a slot is handed on
  /// inside the process; use the `fencing_token` to tell these holds apart. They do not detect an operator who edits
  /// the lock record and leaves the entry.
  ///
  /// Throws operation_not_supported (of the generic category) for a slot of a `local_store`.
  std::vector<consul::txn_operation> fence_checks() const;
  /// Descriptors of the files in the run directory (`tuning::run_directory`) that show that this process is alive, one
  /// for each session of the slot. Empty if there are none, or if the slot is not held. They belong to the library,
  /// which may close them when the slot is released.
  ///
  /// A child process that keeps using the slot after the death of this process should inherit them. They are
  /// close-on-exec. Then nobody frees the slot while the child lives.
  std::vector<int> maker_files() const;
  /// A token that is stopped when the slot is lost, but not when it is released, and not by the destruction of the
  /// execution context. Its callbacks run on the client's executor. In a child of fork(), tokens from before the fork
  /// are never stopped, and a new token is stopped already.
  std::stop_token stop_token() const;

  /// Waits until the slot is lost. Completes with the reason; at once, if the slot is lost already.
  ///
  /// Signature: void(error_code, loss_reason).
  /// Errors: not_held, if the handle is empty, or if the slot is released before or during the wait.
  /// Cancellation: terminal, partial, total. It ends the wait and does not affect the slot.
  template <class Token = throwing_t>
  auto wait_lost(Token&& token = {}) const {
    return detail::begin_operation_if_held<loss_reason>(impl_, detail::calling<detail::start_wait_lost>(),
                                                        std::forward<Token>(token));
  }

  /// True if an operator has asked for the slot (`semaphore_administration::revoke`), or for one of the slots in this
  /// handle. The slot stays held until it is released. Then it goes to the cluster, not to the next waiter of this
  /// process. Once true, it stays true.
  bool revoked() const noexcept;
  /// Waits until an operator asks for the slot. Completes at once if an operator has asked already.
  ///
  /// Signature: void(error_code).
  /// Errors: slot_lost, if the slot is lost before or during the wait. not_held, if the handle is empty, or if the slot
  /// is released before or during the wait.
  /// Cancellation: terminal, partial, total. It ends the wait and does not affect the slot.
  template <class Token = throwing_t>
  auto wait_revoked(Token&& token = {}) const {
    return detail::begin_operation_if_held<>(impl_, detail::calling<detail::start_wait_revoked>(),
                                             std::forward<Token>(token));
  }

  /// Releases the slot to the next waiter of this process, or to the cluster.
  ///
  /// Completes at once if the process keeps the slot, for example for its next waiter. Otherwise it completes after a
  /// write, usually the first one. If the outcome of the write stays unknown, it completes when the slot's session has
  /// been destroyed. If Consul does not answer, it completes with an error when the lease expires; for a lock of a
  /// `mutex_set`, after `tuning::give_up_after`. The slot is then free when Consul ends the session, within two TTLs.
  ///
  /// Signature: void(error_code).
  /// Errors: not_held, if the handle is empty or was released before. slot_lost. Or the error of the write.
  /// Cancellation: not supported. The slot is released in any case.
  template <class Token = throwing_t>
  auto release(Token&& token = {}) {
    return detail::begin_operation_if_held<>(impl_, detail::calling<detail::start_release>(),
                                             std::forward<Token>(token));
  }

private:
  friend class detail::slot_impl;
  friend const std::shared_ptr<detail::slot_impl>& detail::impl_of(const slot&) noexcept;
  explicit slot(std::shared_ptr<detail::slot_impl> impl) noexcept : impl_(std::move(impl)) {}
  void give_back() noexcept;

  std::shared_ptr<detail::slot_impl> impl_;
};

}  // namespace holdfast

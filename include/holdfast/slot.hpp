// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/fencing_token.hpp>
#include <holdfast/hold.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace holdfast {

class slot;

namespace detail {

class slot_impl;

HOLDFAST_EXPORT const asio::any_io_executor& executor_of(const slot_impl&) noexcept;
HOLDFAST_EXPORT std::shared_ptr<slot_impl> slot_impl_of(const slot&) noexcept;

}  // namespace detail

/// A handle to one or more held slots of a semaphore, from `semaphore::acquire`.
///
/// The handle can be moved, not copied. Its destructor releases the slot in the background; it does not block or throw.
/// `release` does the same and reports when it is done. If the process dies, Consul ends its session one to two TTLs
/// after the last renewal, or later if Consul elects a new leader meanwhile. Then the slot is free again, or will be
/// after `tuning::lock_delay`. With `tuning::run_directory` it may be free sooner.
///
/// Loss: a slot can be lost at any time, for a reason of `loss_reason`. Then the stop token fires and each `wait_lost`
/// completes. When you notice a loss, stop the work that the slot protects, and release or destroy the handle. Until
/// you do, nobody else gets the slot, in this process or elsewhere. There are exceptions: Consul ends the session at
/// the latest two TTLs after the last renewal, or after a later election of Consul's leader. If its node is removed,
/// the session ends at once. An operator can take the slot away. `close` waits for `tuning::give_up_after` at most.
/// After loss_reason::not_accepted another process can take the slot back. loss_reason::application_silent is reported
/// only with `tuning::alive`.
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
class HOLDFAST_EXPORT slot : public hold {
public:
  /// Creates an empty handle.
  slot() noexcept = default;

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
  /// for each session of the slot that has a file. Empty if there are none, or if the slot is not held. They belong to
  /// the library, which may close them when the slot is released.
  ///
  /// A child process that keeps using the slot after the death of this process should inherit them. They are
  /// close-on-exec. Then nobody frees the slot while the child lives.
  std::vector<int> maker_files() const;

protected:
  template <class To, class From, class Handler>
  friend struct detail::converting;
  /// Only for what an acquire of this kind of handle has granted.
  explicit slot(hold&& granted) noexcept : hold(std::move(granted)) {}

private:
  const detail::slot_impl* impl() const noexcept;
};

}  // namespace holdfast

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
  empty,     ///< a default-constructed or moved-from handle
  held,      ///< the lease is fresh and the record is watched
  suspect,   ///< held, but a renewal is overdue or the watch is down; the lease has not run out
  lost,      ///< gone for good: nothing revives it
  released,  ///< given back
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

/// One or more slots of a semaphore in your hands, from `semaphore::acquire`.
///
/// The handle may be moved, not copied. Its destructor gives the slot back in the background, without blocking or
/// throwing; `release` does the same and tells when it is done. If the process dies, Consul ends its session after one
/// to two TTLs, and the slot is free again.
///
/// A slot can be lost at any time: see `loss_reason`. Then the stop token fires and `wait_lost` completes, once. Until
/// the handle is released or destroyed, nobody else gets the slot, here or elsewhere: for two TTLs after the last
/// renewal at most, as Consul ends the session then, and not if an operator has taken the slot away. So end what you do
/// with it, and let go. Advisory: nothing stops a paused process from acting after its lease ran out. Ask `held` or
/// `valid_for` before work that cannot be undone, and give the resource the `fencing_token`.
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by
/// default the client's, never inside the initiating function.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: a slot keeps its semaphore's machinery alive. It may outlive the execution context: then it is not held.
/// Its destructor may run while another thread destroys the context.
///
/// fork(): the slot stays with the parent. In the child, the copy of the handle is not held, its state is `released`
/// (or `lost`, if it was lost before), and its destructor does nothing. No operation of the copy may be called: it
/// sends nothing, and does not complete. The same is true of copies of semaphores, mutexes, sets, elections and
/// clients. The child must not run the parent's execution context. It may use a context of its own with clients of its
/// own. `vfork`,
/// `_Fork` and a bare `clone` are not noticed: after these, only exec or `_exit`.
class slot {
public:
  slot() noexcept = default;
  slot(slot&&) noexcept = default;
  slot& operator=(slot&& other) noexcept;
  ~slot() {
    if (impl_) give_back();
  }

  /// Whether the handle came from an acquire, whatever became of the slot.
  bool valid() const noexcept { return impl_ != nullptr; }
  explicit operator bool() const noexcept { return valid(); }

  slot_state state() const noexcept;
  /// Whether the slot is ours at this instant: not lost, and the lease, on a clock that counts suspend, not over.
  /// False in a child of fork().
  bool held() const noexcept { return valid_for() > std::chrono::nanoseconds::zero(); }
  /// Time for which Consul certainly grants nobody else this slot; 0 when it is not held.
  std::chrono::nanoseconds valid_for() const noexcept;
  /// Why it was lost; `loss_reason::none` if it was not.
  loss_reason lost_because() const noexcept;
  /// What led to the loss, for people: say, what Consul answered to the renewals before a lease ran out. Empty if it
  /// was not lost, or if there is no more to say than the reason.
  diagnostics loss_details() const;
  /// The highest of the slots' tokens; see `fencing_token`.
  holdfast::fencing_token fencing_token() const noexcept;
  /// How many slots of the semaphore this is.
  std::uint32_t count() const noexcept;
  /// With `semaphore_options::numbered`, the number of each of them, below the limit at that time: nobody else who asks
  /// for numbers has these while this slot is held. None otherwise.
  std::vector<std::uint32_t> numbers() const;
  /// What Consul itself can check of the hold: put these operations before your own in one `consul::client::transact`.
  /// Consul then refuses all of it (txn_refusal::conflict or missing_key) if the session of the slot has ended, or if
  /// it was given back or granted anew, however late that is noticed here: so no stale holder can write. Two operations
  /// for each slot of `count()`; a transaction has up to 64 operations, and up to 128 from Consul 1.14 on. Throws
  /// system_error, slot_lost or not_held, if the slot is known not to be held, so that a caller cannot omit the checks
  /// by accident. It guards one process's hold against
  /// others. While a slot goes from hand to hand inside the process they stay true: there the `fencing_token` tells.
  /// They do not see an operator who edits the lock record and leaves the entry.
  std::vector<consul::txn_operation> fence_checks() const;
  /// Fires when the slot is lost (not when it is released). Callbacks run on the client's executor. In a child of
  /// fork() tokens of before do not fire, and a new one has fired already.
  std::stop_token stop_token() const;

  /// Waits until the slot is lost, and completes with the reason.
  ///
  /// Signature: void(error_code, loss_reason).
  /// Errors: not_held (it is or gets released, or is empty).
  /// Cancellation: terminal, partial, total; it ends the wait and nothing else.
  /// Lifetimes: the slot may be destroyed before: that releases it.
  template <class Token = throwing_t>
  auto wait_lost(Token&& token = {}) const {
    return detail::begin_operation_if_held<loss_reason>(impl_, detail::calling<detail::start_wait_lost>(),
                                                        std::forward<Token>(token));
  }

  /// Whether an operator has asked for the slot (`semaphore_administration::revoke`). It only asks: the slot is held as
  /// before, until it is released; then it goes to the cluster, not to the next waiter here. Stays true.
  bool revoked() const noexcept;
  /// Waits until an operator asks for the slot; not at all if one has.
  ///
  /// Signature: void(error_code).
  /// Errors: slot_lost (it is or gets lost), not_held (it is or gets released, or is empty).
  /// Cancellation: terminal, partial, total; it ends the wait and nothing else.
  /// Lifetimes: the slot may be destroyed before: that releases it.
  template <class Token = throwing_t>
  auto wait_revoked(Token&& token = {}) const {
    return detail::begin_operation_if_held<>(impl_, detail::calling<detail::start_wait_revoked>(),
                                             std::forward<Token>(token));
  }

  /// Gives the slot back: to the next local waiter, or to the cluster. Completes when that is done: at once, after one
  /// write, or, if that write's outcome stays unknown, when its session has been destroyed. When Consul does not answer
  /// it ends with the lease, with an error: the slot is free when its session ends, within two TTLs.
  ///
  /// Signature: void(error_code).
  /// Errors: not_held (empty, or released before), slot_lost, or what the write failed with.
  /// Cancellation: none; the slot is given back in any case.
  /// Lifetimes: the slot may be destroyed before.
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

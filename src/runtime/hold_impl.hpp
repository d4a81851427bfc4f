// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <chrono>
#include <holdfast/detail/operation.hpp>
#include <holdfast/hold.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "lifetime/process_mark.hpp"
#include "protocol/base/transitions.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::detail {

class shell;

/// The allowed changes of the state of a hold. `empty` is not a state of a hold: an empty handle reports it.
inline constexpr protocol::transition<slot_state> slot_transitions[] = {
    {protocol::outside, slot_state::held},       {slot_state::held, slot_state::suspect},
    {slot_state::suspect, slot_state::held},     {slot_state::held, slot_state::lost},
    {slot_state::suspect, slot_state::lost},     {slot_state::held, slot_state::released},
    {slot_state::suspect, slot_state::released}, {protocol::outside, slot_state::empty},
};

/// The state of one hold, shared by the user's handle and its shell. Readers may be on any thread.
class hold_impl {
public:
  hold_impl(std::shared_ptr<shell> owner, lifetime::process_mark process, protocol::slot_id id,
            protocol::time_point deadline)
      : owner(std::move(owner)), process(process), id(id), deadline_(deadline) {}

  static hold make_handle(std::shared_ptr<hold_impl> impl) { return hold(std::move(impl)); }

  const std::shared_ptr<shell> owner;
  /// The process that has acquired the slot. In a child of that process, a slot that was held at the fork reports
  /// `released`.
  const lifetime::process_mark process;
  const protocol::slot_id id;
  protocol::time_point granted_at{};  ///< for statistics; the shell writes and reads it

  slot_state state() const noexcept { return current().state; }
  std::chrono::nanoseconds valid_for() const noexcept;
  loss_reason reason() const noexcept { return current().reason; }
  std::stop_token stop_token();

  /// Ends the hold if the slot is held. Returns the time at which this call ended it; the caller must then call
  /// `shell::release`. Empty if the hold had ended before, or if its lease has expired.
  std::optional<protocol::time_point> end_hold() noexcept;
  /// True if the slot is lost and this is the first call. The caller must then call `shell::let_go`.
  bool let_go() noexcept;
  /// Returns false if the slot is lost, because a reader found that its lease had expired. The caller must then report
  /// the loss.
  bool update(protocol::time_point deadline, bool suspect) noexcept;
  /// Marks the slot as lost. Returns an operation that requests the stop. The caller must post it, because that runs
  /// the user's stop callbacks; if the execution context is being destroyed, the caller drops it. Null if no stop token
  /// was requested, or if the slot was released before.
  operation_ptr lose(loss_reason reason, std::unique_ptr<const diagnostics> why = nullptr) noexcept;
  diagnostics loss_details() const;
  void revoke() noexcept { revoked_.store(true, std::memory_order_release); }
  bool revoked() const noexcept { return revoked_.load(std::memory_order_acquire); }

private:
  /// State and reason in one atomic object, so that a reader which sees `lost` also sees the reason. The alignment
  /// makes the atomic lock-free.
  struct alignas(sizeof(slot_state) + sizeof(loss_reason)) standing {
    slot_state state;
    loss_reason reason;
    bool is_ours() const { return state == slot_state::held || state == slot_state::suspect; }
  };
  static_assert(std::atomic<standing>::is_always_lock_free);
  standing current() const noexcept;
  standing current_at(protocol::time_point now) const noexcept;
  /// Changes the state from `now` to `next`. No other function changes the state. Returns false if `now` was not the
  /// current state; `now` is then set to the current one.
  bool go_to(standing& now, standing next) const noexcept;
  bool end(standing with) const noexcept;

  mutable std::atomic<standing> standing_{standing{slot_state::held, loss_reason::none}};
  std::atomic<bool> let_go_{false};
  std::atomic<bool> revoked_{false};
  std::atomic<protocol::time_point> deadline_;
  mutable std::mutex stop_mutex_;  ///< guards the members below
  // Most slots get none of these, so they are made when they are needed.
  std::stop_source stop_{std::nostopstate};
  operation_ptr requests_stop_{};
  std::unique_ptr<const diagnostics> loss_details_{};
};

}  // namespace holdfast::detail

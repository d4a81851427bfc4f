#pragma once

#include <atomic>
#include <holdfast/slot.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "consul/process_mark.hpp"
#include "protocol/events.hpp"
#include "protocol/transitions.hpp"

namespace holdfast::detail {

class driver;

/// How a slot changes. `empty` is no state of a slot: it is what a handle without a slot shows.
inline constexpr protocol::transition<slot_state> slot_transitions[] = {
    {protocol::outside, slot_state::held},       {slot_state::held, slot_state::suspect},
    {slot_state::suspect, slot_state::held},     {slot_state::held, slot_state::lost},
    {slot_state::suspect, slot_state::lost},     {slot_state::held, slot_state::released},
    {slot_state::suspect, slot_state::released}, {protocol::outside, slot_state::empty},
};

/// What the user's handle and the driver share about one slot. The driver writes, anybody reads.
class slot_impl {
public:
  slot_impl(std::shared_ptr<driver> owner, consul::detail::process_mark process, protocol::slot_id id,
            fencing_token token, std::uint32_t count, std::vector<std::uint32_t> numbers, protocol::time_point deadline)
      : owner(std::move(owner)),
        process(process),
        id(id),
        token(token),
        count(count),
        numbers(std::move(numbers)),
        deadline_(deadline) {}

  static slot make_handle(std::shared_ptr<slot_impl> impl) { return slot(std::move(impl)); }

  const std::shared_ptr<driver> owner;
  /// In a child of that process the slot is not held, and looks released.
  const consul::detail::process_mark process;
  const protocol::slot_id id;
  const fencing_token token;
  const std::uint32_t count;
  const std::vector<std::uint32_t> numbers;

  slot_state state() const noexcept { return current().state; }
  std::chrono::nanoseconds valid_for() const noexcept;
  loss_reason reason() const noexcept { return current().reason; }
  std::stop_token stop_token();

  /// When this call ended the hold, if it did: the caller then owes the release.
  std::optional<protocol::time_point> end_hold() noexcept;
  /// Whether it was lost, and this is the first to say that its user has done with it: the caller then owes it to the
  /// driver to say so.
  bool let_go() noexcept;
  /// False if its lease was seen to be over before: then it is lost, and nobody has been told.
  bool update(protocol::time_point deadline, bool suspect) noexcept;
  /// The stop source to fire, outside of any lock or strand; empty if nobody asked for a token or it was released
  /// before.
  std::stop_source lose(loss_reason reason, diagnostics why = {}) noexcept;
  diagnostics loss_details() const;
  void revoke() noexcept { revoked_.store(true, std::memory_order_release); }
  bool revoked() const noexcept { return revoked_.load(std::memory_order_acquire); }

private:
  /// Both at once, so that whoever sees that it is lost sees why; aligned so that this takes no lock.
  struct alignas(sizeof(slot_state) + sizeof(loss_reason)) standing {
    slot_state state;
    loss_reason reason;
    bool is_ours() const { return state == slot_state::held || state == slot_state::suspect; }
  };
  static_assert(std::atomic<standing>::is_always_lock_free);
  standing current() const noexcept;
  standing current_at(protocol::time_point now) const noexcept;
  /// The one place where the state changes. False: another thread was faster, and `now` is what it has made of it.
  bool go_to(standing& now, standing next) const noexcept;
  bool end(standing with) const noexcept;

  mutable std::atomic<standing> standing_{standing{slot_state::held, loss_reason::none}};
  std::atomic<bool> let_go_{false};
  std::atomic<bool> revoked_{false};
  std::atomic<protocol::time_point> deadline_;
  diagnostics loss_details_;
  mutable std::mutex stop_mutex_;            ///< of what follows, and of what comes before
  std::stop_source stop_{std::nostopstate};  // made for the first who asks: most slots have nobody
};

}  // namespace holdfast::detail

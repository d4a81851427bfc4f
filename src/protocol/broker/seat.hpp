// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/base/transitions.hpp"
#include "protocol/broker/broker_actions.hpp"
#include "protocol/broker/broker_options.hpp"
#include "protocol/session/lease.hpp"

namespace holdfast::protocol {

/// This core's part in one slot, from the request for B until B is released. A seat has a connection of its own, and at
/// most one request is pending on it. The pool removes a seat when its B is released or its connection has ended.
class seat {
public:
  enum class phase {
    declaring,  ///< B is asked for
    cleansing,  ///< B is ours without a token, and is kept until the last holder's lease is over
    purging,    ///< that lease is over, and F is purged
    held,       ///< B is ours, and the last holder has certainly released the slot
    suspect,    ///< as held, but half of the lease is over without a verification
    lost,       ///< a user was told that the slot is lost, and has not released it yet
    vacating,   ///< B is being released
  };

  seat(seat_id id, const broker_options& options)
      : id_(id), lease_(options.lease, options.lease_margin), wait_(options.lease + options.lease_extra) {}

  seat_id id() const { return id_; }
  std::uint32_t number() const { return number_of(id_); }
  phase current() const { return state_; }
  bool is(phase p) const { return state_ == p; }
  /// Whether a user may get this seat now.
  bool is_usable(time_point now) const {
    return is(phase::held) && user == slot_id::none && exists_ && now < lease_.suspect_at();
  }
  /// Whether the slot would be free for everybody else of ours once B is released with a token.
  bool is_clean() const { return clean_; }
  /// Whether the slot still exists, as far as is known.
  bool exists() const { return exists_; }
  bool awaits(request_id id) const { return pending_ == id && id != 0; }
  time_point asked_at() const { return asked_at_; }
  /// The time until which the seat's user may believe.
  time_point deadline() const { return lease_.deadline(); }
  time_point suspect_at() const { return lease_.suspect_at(); }
  /// The time at which the broker said that B is ours and clean.
  time_point held_since() const { return held_since_; }
  /// The time at which the current request or the release counts as failed: `most` after it began.
  time_point overdue_at(duration most) const;

  // Requests.
  void seize(broker_context& ctx, bool declares_tokens);
  /// Sends the request that is due in this state, if any, or sets a timer for it. `verifies`: false if the lease is to
  /// expire.
  void pursue(broker_context& ctx, bool blocked, bool verifies);
  /// Releases B as soon as no request is pending.
  void vacate(broker_context& ctx);

  // Answers. A seat that is locked or gone is not told: the pool removes it.
  void seized(broker_context& ctx, const event::seized& e);
  void verified(broker_context& ctx, const event::verified& e);

  // Changes that the pool reports to the user.
  void suspect() { state_.go_to(phase::suspect); }
  void lose() { state_.go_to(phase::lost); }
  /// The pool removes the seat now.
  void end() const { state_.end(); }

  /// Adds to the digest what decides about the seat's future, apart from random numbers. Times count relative to now.
  template <class Digest>
  void add_state(Digest& d, time_point now) const {
    const auto left = [&](time_point t) { return t == never ? duration(-1) : std::max(t - now, duration()); };
    d << current() << clean_ << exists_ << vacate_sent_ << (pending_ != 0) << (user != slot_id::none);
    d << (releases != slot_id::none) << raced << revoked << left(lease_.deadline()) << left(lease_.renew_at());
    d << (is(phase::cleansing) ? left(cleanse_at_) : duration());
    d << (pending_ != 0 ? std::min(now - asked_at_, wait_) : duration());
  }

  slot_id user = slot_id::none;      ///< the user that holds the slot, or has lost it and not yet released it
  slot_id releases = slot_id::none;  ///< the user whose release waits for the broker
  hint_id hint = hint_id::none;      ///< the hint that has led to this seat
  std::uint64_t handoffs = 0;        ///< how often the slot has passed from user to user here
  bool raced = false;                ///< a probe has shown the slot to be free
  bool revoked = false;              ///< the user was told that the slot does not exist any more

private:
  static constexpr transition<phase> transitions[] = {
      {outside, phase::declaring},
      {phase::declaring, phase::held},
      {phase::declaring, phase::cleansing},
      {phase::declaring, outside},
      {phase::cleansing, phase::purging},
      {phase::cleansing, phase::vacating},
      {phase::cleansing, outside},
      {phase::purging, phase::held},
      {phase::purging, outside},
      {phase::held, phase::suspect},
      {phase::held, phase::lost},
      {phase::held, phase::vacating},
      {phase::held, outside},
      {phase::suspect, phase::held},
      {phase::suspect, phase::lost},
      {phase::suspect, phase::vacating},
      {phase::suspect, outside},
      {phase::lost, phase::vacating},
      {phase::lost, outside},
      {phase::vacating, outside},
  };

  request_id ask(broker_context& ctx);
  void hold(broker_context& ctx);
  void verify(broker_context& ctx);
  void send_vacate(broker_context& ctx, bool blocked);

  seat_id id_;
  guarded_state<phase, transitions> state_{};
  lease lease_;
  duration wait_;  ///< how long B is kept without a token
  request_id pending_ = 0;
  time_point asked_at_{};
  time_point cleanse_at_ = never;
  time_point held_since_{};
  time_point vacates_since_{};
  bool clean_ = false;
  bool exists_ = true;
  bool vacate_sent_ = false;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <deque>
#include <utility>

#include "protocol/core/context.hpp"
#include "protocol/core/outage.hpp"

namespace holdfast::protocol {

/// The locks and unlocks that wait to be sent. `Place` is the state of one name; its `lock` has a field `is_rest`.
template <class Place>
class lock_queues {
public:
  bool has_locks() const { return !wanted_.empty(); }
  bool has_unlocks() const { return !leaving_.empty(); }
  /// The number of unlocks that Consul refused.
  std::size_t denied() const { return denied_.size(); }

  Place& first_lock() const { return *wanted_.front(); }
  Place& take_lock() { return take(wanted_); }
  Place& take_unlock() { return take(leaving_); }
  bool begins_with_rest_of_locks() const { return begins_with_rest(wanted_); }
  bool begins_with_rest_of_unlocks() const { return begins_with_rest(leaving_); }

  void lock(Place& at) { wanted_.push_back(&at); }
  void unlock(Place& at) { leaving_.push_back(&at); }
  /// It was sent and not applied, so it is the first of the next batch.
  void put_back(Place& at, bool locks) { (locks ? wanted_ : leaving_).push_front(&at); }
  void drop_lock(Place& at) { std::erase(wanted_, &at); }
  void drop_unlock(Place& at) {
    std::erase(leaving_, &at);
    std::erase(denied_, &at);
  }

  /// Consul has refused this unlock. It is tried again after a pause.
  void deny_unlock(context& ctx, Place& at, failure why) {
    denied_.push_back(&at);
    denials_.failed(std::move(why), ctx.now(), ctx.random());
  }
  /// Queues the unlocks that Consul refused, if their pause is over. Otherwise sets a timer for its end.
  void retry_denied(context& ctx) {
    if (denied_.empty() || !ctx.due_or_wake(denials_.retry_at())) return;
    leaving_.insert(leaving_.end(), denied_.begin(), denied_.end());
    denied_.clear();
  }

private:
  using places = std::deque<Place*>;

  static Place& take(places& from) {
    Place& first = *from.front();
    from.pop_front();
    return first;
  }
  static bool begins_with_rest(const places& of) { return !of.empty() && of.front()->second.is_rest; }

  places wanted_;   ///< locks to be sent; one that nobody asks for any more is dropped in its turn
  places leaving_;  ///< unlocks to be sent
  places denied_;   ///< unlocks that Consul refused, for example by ACL rules; retried after pauses
  outage denials_;
};

}  // namespace holdfast::protocol

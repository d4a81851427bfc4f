// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>

#include "protocol/core/moment.hpp"
#include "protocol/core/waiter_queue.hpp"

namespace holdfast::protocol {

/// An acquire whose deadline comes must know whether it waited for a slot or for an answer. An acquire that waits for
/// another process sends nothing for a long time. So, if nothing was heard lately, a small read is sent some time
/// before the deadline. If that read is not answered by the deadline, neither would another request have been.
class sign_of_life {
public:
  /// A request was answered.
  void heard(time_point now) { heard_at_ = now; }
  /// Whether the read is to be sent now.
  bool is_due(moment& at, waiter_queue& waiters) const {
    const waiter* const next = waiters.first_to_expire();
    if (!next) return false;
    const time_point asks_at = next->terms.deadline - notice(*next);
    return at.has_come(asks_at) && heard_at_ < asks_at - notice(*next);
  }
  /// Whether a request that was sent at `sent_at` and is pending at the deadline of `w` has been pending for long.
  /// If this process did not run at the deadline, the answer may have arrived, so nothing is known.
  static bool is_unanswered(const waiter& w, time_point sent_at, time_point now) {
    return now - w.terms.deadline <= notice(w) / 2 && w.terms.deadline - std::max(sent_at, w.came) >= notice(w) / 2;
  }

private:
  /// The time from the read to the deadline.
  static duration notice(const waiter& w) {
    constexpr duration longest = std::chrono::seconds(1);
    return std::min((w.terms.deadline - w.came) / 2, longest);
  }

  time_point heard_at_ = time_point::min();
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <memory>
#include <random>

#include "consul/connections/connection.hpp"
#include "consul/net_names.hpp"
#include "net/waiting.hpp"

namespace holdfast::consul::detail {

/// Whether there is an outage now: a time in which no agent can be reached. One request at a time tries to connect. The
/// others wait until one succeeds or their own turn comes. A request that may not wait takes the result of the pending
/// attempt. Lives on the strand.
class outage {
public:
  class scout;
  /// Where a request waits: before all others that wait for their turn to try, or behind them. Or it waits for no turn,
  /// only for the result of the pending attempt.
  enum class place { first, last, no_turn };

  /// `first` and `longest` are the bounds of the first and of the longest pause between attempts. The timer for the
  /// next attempt locks the owner of this object, to which `owner` refers when the timer is set.
  outage(const strand_type& strand, const std::weak_ptr<void>& owner, clock::duration first, clock::duration longest,
         std::minstd_rand& random)
      : strand_(strand), owner_(owner), first_(first), longest_(longest), random_(random), timer_(strand) {}

  explicit operator bool() const noexcept { return now_ != nullptr; }
  /// The failure of the last attempt. Only to be called during an outage, like `may_try` and `wait`.
  const attempt_result& last() const noexcept { return now_->last; }

  /// Returns true if a request may make an attempt. A request that waits for its turn also waits for the pause.
  bool may_try(bool waits) const noexcept;
  /// Completes at the turn of the request, at the end of the outage or at the deadline. For `place::no_turn`, also
  /// completes with the end of the pending attempt.
  awaitable<void> wait(place where, time_point deadline);

  /// An attempt of the request that tries, or the attempt that begins the outage, has failed.
  void begin_or_prolong(const attempt_result& failed);
  /// An agent was reached. Wakes all requests that wait.
  void end() noexcept;

  /// To be called when no request is left.
  void rest() { timer_.cancel(); }
  void close() noexcept { timer_.close(); }

private:
  struct state {
    unsigned number = 0;
    attempt_result last;  // the failure of the last attempt
    unsigned failures = 0;
    time_point try_at{};
    bool is_tried = false;
    waiter_list waiting{};    // requests that wait for their turn to try
    waiter_list impatient{};  // requests that only wait for the result of the pending attempt
  };

  void wake_a_scout();

  const strand_type& strand_;
  const std::weak_ptr<void>& owner_;
  const clock::duration first_;
  const clock::duration longest_;
  std::minstd_rand& random_;
  wake_timer timer_;            // wakes a request that tries an agent again
  std::unique_ptr<state> now_;  // set while no agent can be reached
  unsigned count_ = 0;          // the number of outages so far
};

/// The right to try to reach an agent during an outage. One request at a time has it, and keeps it for all its
/// attempts.
class outage::scout {
public:
  explicit scout(outage& of) noexcept : of_(of) {}
  /// Passes the right on.
  ~scout();
  scout(const scout&) = delete;
  scout& operator=(const scout&) = delete;

  bool tries() const noexcept { return of_.now_ && of_.now_->number == tries_in_; }
  /// Takes the right. Only to be called if `may_try` returns true.
  void begin() noexcept;

private:
  outage& of_;
  unsigned tries_in_ = 0;  // the number of the outage
};

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>

namespace holdfast::consul::detail {

/// Decides how many blocking queries may run at once.
///
/// An agent limits the connections from one address, and so all processes of a host share them. A client notices the
/// others only when a new connection of its own is refused. After a refusal, a client allows itself fewer queries, and
/// tries one more at intervals. While more than a few queries run, the client also closes connections that work from
/// time to time, even without a refusal: another process can get their places. A client with more connections closes
/// them more often, so all such clients end up with about the same number. Pure: the time is an argument.
class concurrency_limit {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// The limit never falls below this number, whatever is refused, unless the configured maximum is lower.
  static constexpr std::size_t least = 2;
  /// The time after a refusal, and after each increase, before one more is allowed.
  static constexpr std::chrono::milliseconds before_one_more{2'000};
  /// How long this client leaves the place of a connection that it closed to other processes.
  static constexpr std::chrono::milliseconds before_it_is_taken_back{300};
  /// How long after a refusal `is_pressed` is true.
  static constexpr std::chrono::milliseconds pressed_for{60'000};

  explicit concurrency_limit(std::size_t most) noexcept : most_(most), target_(most) {}

  std::size_t allowed(time_point now) {
    while (target_ < most_ && grows_at_ <= now) {
      ++target_;
      grows_at_ += before_one_more;
    }
    while (!free_until_.empty() && free_until_.front() <= now) free_until_.pop_front();
    return at_least(target_ - std::min(target_, free_until_.size()));
  }

  /// The next time at which `allowed` may grow without another event; max if there is none.
  time_point changes_at() const noexcept {
    const time_point grows = target_ < most_ ? grows_at_ : time_point::max();
    return free_until_.empty() ? grows : std::min(grows, free_until_.front());
  }

  /// A connection was refused. `running` is the number of queries that may go on.
  void refused(std::size_t running, time_point now) noexcept {
    target_ = at_least(std::min(target_, running));
    grows_at_ = now + before_one_more;
    pressed_until_ = now + pressed_for;
  }
  /// Returns true if a connection was refused within the last `pressed_for`.
  bool is_pressed(time_point now) const noexcept { return now < pressed_until_; }

  /// The client has closed a connection so that another process can get it.
  void ceded(time_point now) { free_until_.push_back(now + before_it_is_taken_back); }

private:
  std::size_t at_least(std::size_t n) const noexcept { return std::max(n, std::min(least, most_)); }

  std::size_t most_;
  std::size_t target_;  // the limit without regard to `free_until_`
  time_point grows_at_;
  time_point pressed_until_;
  std::deque<time_point> free_until_;
};

}  // namespace holdfast::consul::detail

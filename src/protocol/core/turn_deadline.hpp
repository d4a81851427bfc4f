// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <optional>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// `now` plus `time`, or `never` if that is too late for a time point. A negative time counts as zero.
inline time_point time_after(time_point now, duration time) noexcept {
  const duration positive = std::max(time, duration::zero());
  return positive < never - now ? now + positive : never;
}

/// Decides when an acquire fails because its turn comes too late (acquire_options::deadline).
class turn_deadline {
public:
  turn_deadline() = default;  ///< no deadline
  turn_deadline(time_point now, duration left) noexcept : at_(time_after(now, left)) {}

  /// From then on, a denial is a failure.
  time_point at() const noexcept { return at_; }
  bool has_passed(time_point now) const noexcept { return now >= at_; }
  /// The acquire need not begin to wait. If the wait is not known, it waits.
  bool will_pass_first(time_point now, const std::optional<duration>& expected_wait) const noexcept {
    return expected_wait && time_after(now, *expected_wait) > at_;
  }

private:
  time_point at_ = never;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>

namespace holdfast::protocol {

using std::chrono::nanoseconds;
using duration = nanoseconds;

/// The protocol's clock. It has no `now()`: the time is an argument, so that a simulation controls it.
struct clock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = nanoseconds;
  using time_point = std::chrono::time_point<clock, duration>;
  static constexpr bool is_steady = true;
};
using time_point = clock::time_point;

inline constexpr time_point never = time_point::max();

}  // namespace holdfast::protocol

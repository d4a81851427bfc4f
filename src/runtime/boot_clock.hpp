// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <time.h>

#include "protocol/base/time.hpp"

namespace holdfast::runtime {

/// The current time of a clock that also runs while the machine is suspended, because leases expire during that time,
/// too. Without CLOCK_BOOTTIME, CLOCK_MONOTONIC is used.
inline protocol::time_point now() noexcept {
#ifdef CLOCK_BOOTTIME
  constexpr clockid_t id = CLOCK_BOOTTIME;
#else
  constexpr clockid_t id = CLOCK_MONOTONIC;
#endif
  timespec t{};
  ::clock_gettime(id, &t);
  return protocol::time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

/// The time of a clock that ticks every few milliseconds, and is read four times as fast. It does not run while the
/// machine is suspended. Only differences between its own times make sense.
inline protocol::time_point coarse_now() noexcept {
#ifdef CLOCK_MONOTONIC_COARSE
  constexpr clockid_t id = CLOCK_MONOTONIC_COARSE;
#else
  constexpr clockid_t id = CLOCK_MONOTONIC;
#endif
  timespec t{};
  ::clock_gettime(id, &t);
  return protocol::time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

}  // namespace holdfast::runtime

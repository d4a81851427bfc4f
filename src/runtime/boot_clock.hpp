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

}  // namespace holdfast::runtime

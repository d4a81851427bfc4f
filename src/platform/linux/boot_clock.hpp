// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <time.h>

#include <chrono>

namespace holdfast::platform {

inline std::chrono::nanoseconds read_clock(clockid_t id) noexcept {
  timespec t{};
  ::clock_gettime(id, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

/// `boot_time` of platform/clocks.hpp. It is inline for the guard of the program, which sees no private symbol of the
/// library.
inline std::chrono::nanoseconds read_boot_clock() noexcept { return read_clock(CLOCK_BOOTTIME); }

}  // namespace holdfast::platform

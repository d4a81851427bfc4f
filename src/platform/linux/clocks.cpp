// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/clocks.hpp"

#include "platform/linux/boot_clock.hpp"

namespace holdfast::platform {

std::chrono::nanoseconds boot_time() noexcept { return read_boot_clock(); }

std::chrono::nanoseconds coarse_time() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }

}  // namespace holdfast::platform

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/detail/export.hpp>

namespace holdfast::platform {

/// The time of a clock that also runs while the machine is suspended.
/// Portable version: the time of std::chrono::steady_clock, which may stand still while the machine is suspended.
HOLDFAST_INTERNAL std::chrono::nanoseconds boot_time() noexcept;

/// The time of a clock that ticks every few milliseconds, and is read four times as fast. It does not run while the
/// machine is suspended. Only differences between its own times make sense.
/// Portable version: the time of std::chrono::steady_clock.
HOLDFAST_INTERNAL std::chrono::nanoseconds coarse_time() noexcept;

}  // namespace holdfast::platform

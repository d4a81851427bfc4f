// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "platform/clocks.hpp"
#include "protocol/base/time.hpp"

namespace holdfast::runtime {

/// The current time of a clock that also runs while the machine is suspended, because leases expire during that time,
/// too.
inline protocol::time_point now() noexcept { return protocol::time_point(platform::boot_time()); }

/// The time of a clock that ticks every few milliseconds, and is read four times as fast. It does not run while the
/// machine is suspended. Only differences between its own times make sense.
inline protocol::time_point coarse_now() noexcept { return protocol::time_point(platform::coarse_time()); }

}  // namespace holdfast::runtime

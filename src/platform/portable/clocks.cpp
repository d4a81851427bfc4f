// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/clocks.hpp"

namespace holdfast::platform {

std::chrono::nanoseconds boot_time() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

std::chrono::nanoseconds coarse_time() noexcept { return boot_time(); }

}  // namespace holdfast::platform

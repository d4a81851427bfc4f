// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/detail/export.hpp>
#include <string>
#include <string_view>

namespace holdfast::consul::detail {

/// Returns the duration as it is written in requests, in a form that Go parses and that is exact: `15000ms`.
std::string to_go_duration(std::chrono::milliseconds duration);

/// Parses Go's duration syntax without a sign ("1h2m3.5s", "300ms", "0"; the empty string is 0). Consul returns a
/// session's TTL as its creator wrote it, so any form may come. Returns false for other text, and for a duration over
/// 2^63 - 1 ns.
HOLDFAST_INTERNAL bool parse_go_duration(std::string_view text, std::chrono::nanoseconds& out) noexcept;

}  // namespace holdfast::consul::detail

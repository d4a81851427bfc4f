// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <string_view>

namespace holdfast {

/// The default TTL of sessions. See `semaphore_options::session_ttl`.
inline constexpr std::chrono::milliseconds default_session_ttl{15'000};
/// The default node, in Consul's catalog, that sessions belong to. No agent runs on it.
inline constexpr std::string_view default_session_node = "holdfast-sessions";

}  // namespace holdfast

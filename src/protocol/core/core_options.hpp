// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <holdfast/session_defaults.hpp>
#include <optional>
#include <string>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The options that all cores have. They also contain the defaults of the public options (`holdfast/options.hpp`).
/// Simulated worlds set these options by hand, in `world.cpp`, `world_sets.cpp` and `interleavings.cpp`. No check finds
/// an option that they do not set.
struct core_options {
  std::string prefix;  ///< the prefix of the keys with its trailing slash, or a mutex's full key
  std::string description;
  std::string store = "Consul";  ///< the name of the store in the texts of errors
  /// Add this offset to the core's clock to get the wall-clock time (Unix epoch). Without it, our entries state neither
  /// the time at which they were made nor the lease of their sessions.
  std::optional<duration> wall_offset{};
  /// The node of Consul's catalog that our sessions belong to, and end with. Empty: the agent's own node.
  std::string node{default_session_node};
  duration ttl = default_session_ttl;
  duration lease_margin = std::chrono::milliseconds(1500);
  duration outage_grace = std::chrono::hours(24);
  duration give_up_after = std::chrono::seconds(5);
  duration session_idle_timeout = std::chrono::seconds(10);
  duration watch_wait = std::chrono::seconds(10);
  std::size_t waiters_max = 1'000'000;
  duration alive_within{};  ///< the application must answer within this time; 0: it is not asked
};

}  // namespace holdfast::protocol

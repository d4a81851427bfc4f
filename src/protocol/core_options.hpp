#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "protocol/succession.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

inline constexpr duration usual_ttl = std::chrono::seconds(15);

/// What all cores need to be told. Here are the defaults of the public options, too (`holdfast/options.hpp`).
struct core_options {
  std::string prefix;  ///< of the keys: with its trailing slash, or a mutex's whole key
  std::string description;
  /// What makes wall-clock time, since 1970, of the core's. None: our entries say neither since when they stand, nor
  /// for how long we may believe in them.
  std::optional<duration> wall_offset{};
  /// Which node of Consul's catalog our sessions end with; empty: the agent's own.
  std::string node{usual_node};
  duration ttl = usual_ttl;
  duration lease_margin = std::chrono::milliseconds(1500);
  duration outage_grace = std::chrono::hours(24);
  duration give_up_after = std::chrono::seconds(5);
  duration session_idle_timeout = std::chrono::seconds(10);
  duration watch_wait = std::chrono::seconds(10);
  std::size_t waiters_max = 1'000'000;
};

}  // namespace holdfast::protocol

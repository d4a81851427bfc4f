// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "participant.hpp"

#include <random>

namespace holdfast::bench {

semaphore_options options_for(const parameters& p) {
  semaphore_options options;
  options.prefix = "bench/" + p.workload + "-" + std::to_string(std::random_device()());
  options.limit = p.limit + (p.broken ? 1 : 0);
  if (p.workload == "cycle-idle" || p.workload == "cycle-immediate")
    options.tuning.slot_idle_timeout = std::chrono::seconds(10);
  return options;
}

traffic used_by(const std::deque<participant>& all) {
  traffic sum;
  for (const auto& each : all) {
    const auto s = each.client.statistics();
    sum.requests += s.requests;
    sum.bytes += s.bytes_sent + s.bytes_received;
    sum.connections += s.connections_open;
  }
  return sum;
}

}  // namespace holdfast::bench

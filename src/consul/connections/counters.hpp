// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <holdfast/consul/client.hpp>

#include "lifetime/tally.hpp"

namespace holdfast::consul::detail {

/// The values of client::statistics(). Written on the strand, and by the thread that destroys connections with the
/// client or the execution context. Read from any thread.
struct counters {
  std::atomic<std::uint64_t> requests{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> bytes_received{0};
  std::atomic<std::uint64_t> connections_opened{0};
  std::atomic<std::uint64_t> connections_open{0};
  std::atomic<std::uint64_t> connections_refused{0};
  std::atomic<std::uint64_t> tokens_unknown{0};

  struct kind_tallies {
    lifetime::tallies_by<decltype(operation_statistics::ended)> ended;
    lifetime::histogram_tally<duration_histogram> took;
  };
  std::array<kind_tallies, request_kinds.size()> operations;  ///< only the strand writes

  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t n = 1) noexcept {
    counter.fetch_add(n, std::memory_order_relaxed);
  }
  static void subtract(std::atomic<std::uint64_t>& counter) noexcept {
    counter.fetch_sub(1, std::memory_order_relaxed);
  }
};

}  // namespace holdfast::consul::detail

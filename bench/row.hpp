// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <optional>
#include <string>

#include "measure.hpp"
#include "parameters.hpp"

namespace holdfast::bench {

/// Requests, bytes sent and received, and open connections of one or more clients. The floors do not count connections.
struct traffic {
  std::uint64_t requests = 0, bytes = 0, connections = 0;
  traffic operator-(const traffic& earlier) const {
    return {requests - earlier.requests, bytes - earlier.bytes, connections};
  }
  traffic& operator+=(const traffic& others) {
    requests += others.requests;
    bytes += others.bytes;
    connections += others.connections;
    return *this;
  }
};

/// The figures of one measurement. A figure that does not apply stays empty, and is null in the JSON.
struct row {
  std::optional<double> ops_per_s{};
  const latencies* times = nullptr;
  std::optional<double> requests_per_op{};
  std::optional<double> bytes_per_op{};
  std::optional<double> jain{};
  std::optional<double> bytes_per_waiter{};     ///< of the heap
  std::optional<double> resident_per_waiter{};  ///< of the memory that the kernel gives
  std::optional<bool> limit_held{};
  std::optional<double> connections{};    ///< open connections of one client, on average, at the end
  std::optional<double> turn_wait_max{};  ///< longest wait of a client between two turns of its own, over the mean
  std::optional<double> wait_error{};     ///< expected waits: the mean error, over the mean wait
  std::uint32_t processes = 1;            ///< of the operating system, among which the contenders are spread
  std::uint32_t not_served = 0;           ///< clients that had no turn before the warm-up
  std::uint64_t errors = 0;  ///< failed or unfinished operations, and lost slots; in loss: losses not noticed

  void set_rates(double operations, duration window, const traffic& used);
  /// On one line.
  std::string to_json(const parameters& p) const;
};

}  // namespace holdfast::bench

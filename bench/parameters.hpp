// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::bench {

/// One measurement: a workload, done by one system. Peers in other languages take options of the same names.
struct parameters {
  std::string workload;
  std::string system = "holdfast";
  std::uint32_t contenders = 1;
  std::uint32_t limit = 1;
  std::chrono::nanoseconds window = std::chrono::seconds(1);  ///< measured time; warming up comes on top
  double rate = 0;                                            ///< arrivals per second, of open-loop
  bool broken = false;  ///< there is one slot too many, so that the limit checker must report it
};

/// How contenders are spread over clients, and clients over processes of the operating system. Each client has a
/// semaphore, sessions and connections of its own.
struct shape {
  static constexpr std::uint32_t processes_max = 8;

  std::uint32_t clients = 1;
  std::uint32_t coroutines = 1;  ///< of each client
  bool rival = false;            ///< one more client, with one coroutine

  static shape of(const parameters& p) {
    if (p.workload == "handoff" || p.workload == "long-hold" || p.workload == "mutex" || p.workload == "open-loop")
      return {p.contenders, 1};
    if (p.workload == "mixed") return {8, p.contenders / 8};
    return {1, p.contenders, p.workload == "pool-rival"};
  }
  std::uint32_t all_clients() const { return clients + (rival ? 1 : 0); }
  std::uint32_t contenders() const { return clients * coroutines + (rival ? 1 : 0); }
  std::uint32_t processes() const { return std::min(all_clients(), processes_max); }
  std::uint32_t process_of(std::uint32_t client) const { return client * processes() / all_clients(); }
};

}  // namespace holdfast::bench

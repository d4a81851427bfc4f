#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace holdfast::bench {

/// One measurement: a workload, done by one system. Peers in other languages take the same options by the same names.
struct parameters {
  std::string workload;
  std::string system = "holdfast";
  std::uint32_t contenders = 1;
  std::uint32_t limit = 1;
  std::chrono::nanoseconds window = std::chrono::seconds(1);  ///< measured time; warming up comes on top
  double rate = 0;                                            ///< arrivals per second, of open-loop
  bool broken = false;  ///< floor-asio gets one slot too many, to see the limit checker notice
};

/// How contenders are spread over processes. A "process" is a client and a semaphore of its own, which share nothing
/// with the others but the thread that runs them.
struct shape {
  std::uint32_t processes = 1;
  std::uint32_t coroutines = 1;  ///< in each
  bool rival = false;            ///< one more process, with one coroutine

  static shape of(const parameters& p) {
    if (p.workload == "handoff" || p.workload == "mutex" || p.workload == "open-loop") return {p.contenders, 1};
    if (p.workload == "mixed") return {8, p.contenders / 8};
    return {1, p.contenders, p.workload == "pool-rival"};
  }
};

}  // namespace holdfast::bench

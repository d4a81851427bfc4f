#pragma once

#include <random>

#include "measure.hpp"

namespace holdfast::bench {

/// How long who has arrived keeps the slot: the limit could not be seen to hold otherwise.
inline constexpr std::chrono::milliseconds visit_time(1);

/// Arrivals at a fixed mean rate, independent of each other (a Poisson process); the same in each run. Who arrives
/// while the system is busy waits, and its wait counts from its arrival.
class arrivals {
public:
  arrivals(double rate, clock::time_point begin) : gap_(rate), next_(begin) {}

  clock::time_point next() {
    next_ += std::chrono::duration_cast<duration>(std::chrono::duration<double>(gap_(random_)));
    return next_;
  }

private:
  std::mt19937_64 random_{1};
  std::exponential_distribution<double> gap_;
  clock::time_point next_;
};

}  // namespace holdfast::bench

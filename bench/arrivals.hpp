// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <random>

#include "measure.hpp"

namespace holdfast::bench {

/// The time for which an arrival holds its slot. Without it the limit check could notice nothing.
inline constexpr std::chrono::milliseconds visit_time(1);

/// Arrivals at a fixed mean rate, independent of each other (a Poisson process) and the same in each run. If the system
/// is busy, an arrival waits, and its wait counts from the time of its arrival.
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

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <random>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The only source of randomness in the core: seeded from outside, so that a run replays.
class random_source {
public:
  explicit random_source(std::uint64_t seed) : engine_(seed) {}

  /// Between `low` and `high`, both included; `low` if `high` is below it. (No std distribution: those differ between
  /// standard libraries.)
  duration between(duration low, duration high) {
    if (high <= low) return low;
    const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + duration(static_cast<duration::rep>(engine_() % span));
  }

private:
  std::mt19937_64 engine_;
};

}  // namespace holdfast::protocol

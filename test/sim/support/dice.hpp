// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <random>

#include "protocol/base/time.hpp"

namespace holdfast::test {

/// The only source of randomness in a world. The same seed gives the same values.
class dice {
public:
  explicit dice(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }
  protocol::duration between(protocol::duration low, protocol::duration high) {
    const auto span = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + protocol::duration(static_cast<protocol::duration::rep>(below(span)));
  }

private:
  std::mt19937_64 engine_;
};

}  // namespace holdfast::test

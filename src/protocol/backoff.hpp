#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/time.hpp"

namespace holdfast::protocol {

/// The bound of a random pause before the next attempt: it doubles from `first` to `longest`.
constexpr duration backoff_bound(unsigned failures, duration first, duration longest) {
  return std::min<duration>(first * (std::int64_t{1} << std::min(failures, 16u)), longest);
}

}  // namespace holdfast::protocol

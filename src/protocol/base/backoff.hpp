// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The upper bound of a random pause before the next attempt. It is `first` after no failure, and doubles with each
/// failure up to `longest`.
constexpr duration backoff_bound(unsigned failures, duration first, duration longest) {
  return std::min<duration>(first * (std::int64_t{1} << std::min(failures, 16u)), longest);
}

}  // namespace holdfast::protocol

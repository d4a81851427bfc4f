// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "net/asio.hpp"

namespace holdfast::net {

/// Returns the pause before the next attempt. It has full jitter: it is random between 0 and a bound, which doubles
/// with each failure from `first` to `longest`. So clients that failed at the same time do not try again at the same
/// time. See https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter.
inline clock::duration pause_after(unsigned failures, clock::duration first, clock::duration longest,
                                   std::minstd_rand& random) {
  const clock::duration bound = std::min(first * (std::int64_t{1} << std::min(failures, 20u)), longest);
  return clock::duration(std::uniform_int_distribution<clock::rep>(0, bound.count())(random));
}

}  // namespace holdfast::net

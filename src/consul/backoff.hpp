#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "net.hpp"

namespace holdfast::consul::detail {

/// A pause before something that has failed is tried again, with full jitter: random between nothing and a bound that
/// doubles from `first` to `longest` (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).
/// Clients that failed together do not come back together.
inline clock::duration pause_after(unsigned failures, clock::duration first, clock::duration longest,
                                   std::minstd_rand& random) {
  const clock::duration bound = std::min(first * (std::int64_t{1} << std::min(failures, 20u)), longest);
  return clock::duration(std::uniform_int_distribution<clock::rep>(0, bound.count())(random));
}

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/detail/enumeration.hpp>
#include <holdfast/histogram.hpp>

namespace holdfast::lifetime {

/// A number that one thread at a time changes, and any thread reads. So an addition need not be atomic.
class tally {
public:
  void add(std::int64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(n), std::memory_order_relaxed);
  }
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
  std::atomic<std::uint64_t> value_{0};
};

/// The tallies of a histogram. `add` allocates nothing.
template <class Histogram>
class histogram_tally {
public:
  void add(typename Histogram::value_type value) noexcept {
    std::size_t bucket = 0;  // most values are small, so this is faster than a binary search
    while (bucket < Histogram::bounds.size() && value > Histogram::bounds[bucket]) ++bucket;
    buckets_[bucket].add();
    sum_.add(in_units(value));
  }
  Histogram read() const noexcept {
    Histogram result;
    for (std::size_t i = 0; i < buckets_.size(); ++i) result.buckets[i] = buckets_[i].read();
    from_units(static_cast<std::int64_t>(sum_.read()), result.sum);
    return result;
  }

private:
  static constexpr double units = 1e9;  // of a ratio
  static std::int64_t in_units(std::chrono::nanoseconds value) noexcept { return value.count(); }
  static std::int64_t in_units(double value) noexcept { return static_cast<std::int64_t>(value * units); }
  static void from_units(std::int64_t sum, std::chrono::nanoseconds& into) noexcept {
    into = std::chrono::nanoseconds(sum);
  }
  static void from_units(std::int64_t sum, double& into) noexcept { into = static_cast<double>(sum) / units; }

  std::array<tally, Histogram::bounds.size() + 1> buckets_;
  tally sum_;
};

/// The tallies by the enumerators of a `counters_by`.
template <class Counters>
class tallies_by {
public:
  void add(typename Counters::key_type which) noexcept { all_[detail::index_of(which)].add(); }
  Counters read() const noexcept {
    Counters result;
    for (std::size_t i = 0; i < all_.size(); ++i) result[static_cast<typename Counters::key_type>(i)] = all_[i].read();
    return result;
  }

private:
  std::array<tally, Counters::size> all_;
};

}  // namespace holdfast::lifetime

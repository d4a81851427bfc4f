// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/detail/enumeration.hpp>
#include <numeric>

namespace holdfast {

/// One counter for each enumerator of `Enum`. A value that is not an enumerator has the counter of the value 0.
template <class Enum>
class counters_by {
public:
  using key_type = Enum;
  static constexpr std::size_t size = detail::enumerators_size<Enum>;

  std::uint64_t operator[](Enum which) const noexcept { return all_[detail::index_of(which)]; }
  std::uint64_t& operator[](Enum which) noexcept { return all_[detail::index_of(which)]; }
  std::uint64_t total() const noexcept { return std::accumulate(all_.begin(), all_.end(), std::uint64_t{0}); }
  bool operator==(const counters_by&) const = default;

private:
  std::array<std::uint64_t, size> all_{};
};

/// How many durations were measured, by their lengths.
struct duration_histogram {
  using value_type = std::chrono::nanoseconds;
  /// The longest duration that each bucket counts. One more bucket counts all that are longer.
  static constexpr std::array<std::chrono::microseconds, 18> bounds = [] {
    using std::chrono::microseconds;
    return std::array{microseconds(100),        microseconds(1'000),       microseconds(2'500),
                      microseconds(5'000),      microseconds(10'000),      microseconds(25'000),
                      microseconds(50'000),     microseconds(100'000),     microseconds(250'000),
                      microseconds(500'000),    microseconds(1'000'000),   microseconds(2'500'000),
                      microseconds(5'000'000),  microseconds(10'000'000),  microseconds(30'000'000),
                      microseconds(60'000'000), microseconds(300'000'000), microseconds(1'800'000'000)};
  }();

  std::array<std::uint64_t, bounds.size() + 1> buckets{};  ///< each counts the durations of its own range only
  std::chrono::nanoseconds sum{};

  std::uint64_t count() const noexcept { return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}); }
  bool operator==(const duration_histogram&) const = default;
};

/// How many ratios were measured, by their values.
struct ratio_histogram {
  using value_type = double;
  /// The largest ratio that each bucket counts. One more bucket counts all that are larger.
  static constexpr std::array<double, 9> bounds{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

  std::array<std::uint64_t, bounds.size() + 1> buckets{};  ///< each counts the ratios of its own range only
  double sum = 0;

  std::uint64_t count() const noexcept { return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}); }
  bool operator==(const ratio_histogram&) const = default;
};

}  // namespace holdfast

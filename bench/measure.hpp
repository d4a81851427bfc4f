// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace holdfast::bench {

using clock = std::chrono::steady_clock;
using duration = std::chrono::nanoseconds;

double in_seconds(duration d);
double in_milliseconds(duration d);

/// A histogram of times, exact to 1.6 %: 64 buckets for each power of two of nanoseconds.
class latencies {
public:
  void add(duration d) {
    const auto n = static_cast<std::uint64_t>(d.count() > 0 ? d.count() : 0);
    ++buckets_[bucket(n)];
    ++count_;
    sum_ += n;
    if (n > max_) max_ = n;
  }

  latencies& operator+=(const latencies& others);

  std::uint64_t count() const { return count_; }
  duration quantile(double q) const;
  duration mean() const { return duration(count_ ? sum_ / count_ : 0); }
  duration max() const { return duration(max_); }

private:
  static constexpr unsigned bits = 6;
  static std::size_t bucket(std::uint64_t n);
  static std::uint64_t middle(std::size_t bucket);

  std::array<std::uint64_t, (64 - bits + 1) << bits> buckets_{};
  std::uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

/// Counts the holders that are inside, independently of the code that has to limit them. It works across threads, and
/// across processes if it lies in shared memory.
class limit_checker {
public:
  void enter() {
    const int now = ++inside_;
    for (int peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);) {
    }
  }
  void leave() { --inside_; }
  bool held(std::uint32_t limit) const { return peak_ <= static_cast<int>(limit); }

private:
  std::atomic<int> inside_{0};
  std::atomic<int> peak_{0};
};

/// Jain's fairness index: 1 if all have the same, 1/n if one has everything, 0 if all have nothing.
double jain(const std::vector<std::uint64_t>& shares);

/// Memory that this process shares with the children that it forks afterwards. It is all zeros at first, and is never
/// freed.
void* shared_memory(std::size_t bytes);

/// Bytes that the program has allocated and not freed, the allocator's overhead included. The figure comes from the
/// allocator, because Asio gets coroutine frames from std::aligned_alloc, which a counting operator new does not see.
std::size_t heap_in_use();

/// The resident memory of this process, in bytes.
std::size_t resident();

}  // namespace holdfast::bench

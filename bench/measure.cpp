// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "measure.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace holdfast::bench {

double in_seconds(duration d) { return std::chrono::duration<double>(d).count(); }
double in_milliseconds(duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

std::size_t latencies::bucket(std::uint64_t n) {
  const auto width = static_cast<unsigned>(std::bit_width(n));
  if (width <= bits) return n;
  const unsigned shift = width - bits - 1;
  return ((std::size_t{shift} + 1) << bits) + ((n >> shift) - (1u << bits));
}

std::uint64_t latencies::middle(std::size_t bucket) {
  if (bucket < (1u << bits)) return bucket;
  const auto shift = (bucket >> bits) - 1;
  const std::uint64_t low = ((bucket & ((1u << bits) - 1)) + (1u << bits)) << shift;
  return low + ((std::uint64_t{1} << shift) >> 1);
}

latencies& latencies::operator+=(const latencies& others) {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += others.buckets_[i];
  count_ += others.count_;
  sum_ += others.sum_;
  max_ = std::max(max_, others.max_);
  return *this;
}

duration latencies::quantile(double q) const {
  const auto rank = static_cast<std::uint64_t>(q * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen > rank) return duration(middle(i));
  }
  return max();
}

double jain(const std::vector<std::uint64_t>& shares) {
  double sum = 0, squares = 0;
  for (const auto share : shares) {
    const auto x = static_cast<double>(share);
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 0;
}

void* shared_memory(std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "shared memory");
  return at;
}

std::size_t heap_in_use() {
  const auto info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::size_t resident() {
  std::size_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace holdfast::bench

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "protocol/base/time.hpp"

namespace holdfast::test {

/// The true time of a world, and the jobs that are due later. Jobs that are due at the same time run in the order in
/// which they were added.
class timetable {
public:
  using job = std::function<void()>;

  protocol::time_point now() const { return now_; }
  void in(protocol::duration delay, job what) {
    entries_.push_back({now_ + delay, ++last_, std::move(what)});
    std::push_heap(entries_.begin(), entries_.end(), is_later);
  }
  /// Advances to the next job and runs it, if it is due by `end`. Otherwise advances to `end` and returns false.
  bool run_one(protocol::time_point end) {
    if (entries_.empty() || entries_.front().due > end) {
      now_ = std::max(now_, end);
      return false;
    }
    std::pop_heap(entries_.begin(), entries_.end(), is_later);
    const entry next = std::move(entries_.back());
    entries_.pop_back();
    now_ = next.due;
    next.what();
    return true;
  }

private:
  struct entry {
    protocol::time_point due;
    std::uint64_t number;
    job what;
  };
  static bool is_later(const entry& a, const entry& b) { return a.due != b.due ? a.due > b.due : a.number > b.number; }

  protocol::time_point now_{};
  std::vector<entry> entries_;  // a heap
  std::uint64_t last_ = 0;
};

/// The clock of one computer. It has a constant offset, and runs too fast or too slow by some parts per million.
class skewed_clock {
public:
  skewed_clock() = default;
  skewed_clock(protocol::duration ahead, std::int64_t ppm) : ahead_(ahead), ppm_(ppm) {}

  protocol::time_point local(protocol::time_point truly) const {
    return truly + ahead_ + truly.time_since_epoch() * ppm_ / 1'000'000;
  }
  /// Returns the earliest true time at which the clock shows `local_time`.
  protocol::time_point truly(protocol::time_point local_time) const {
    if (local_time == protocol::never) return protocol::never;
    const protocol::time_point shown = local_time - ahead_;
    protocol::time_point t = shown - shown.time_since_epoch() * ppm_ / (1'000'000 + ppm_);
    while (local(t) < local_time) t += protocol::duration(1);
    while (local(t - protocol::duration(1)) >= local_time) t -= protocol::duration(1);
    return t;
  }

  void set_back(protocol::duration by) { ahead_ -= by; }

private:
  protocol::duration ahead_{};
  std::int64_t ppm_ = 0;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The queue of a lock, as far as a core knows it without a request.
struct queue_state {
  struct holder {
    std::string session;
    std::string description;
    std::optional<std::chrono::seconds> age{};  ///< since it joined the queue
  };

  /// The place in the cluster's queue of the first session that waits here; 1 is the next. Empty if none waits, or if
  /// it is not known. Just after the last local waiter has gone, its session may still wait.
  std::optional<std::size_t> place{};
  std::size_t before = 0;  ///< the acquires and contenders that are served before a new local acquire
  std::size_t free = 0;    ///< slots that nobody holds
  std::size_t limit = 1;
  std::size_t held = 0;           ///< slots that somebody holds
  std::size_t held_here = 0;      ///< slots of this core among them
  std::vector<holder> holders{};  ///< some of those that hold them; empty unless asked for
};

/// The times for which slots were held here, of which the latest count most.
class hold_times {
public:
  void add(duration held) noexcept {
    const auto time = static_cast<double>(held.count());
    const double weight = count_ < window ? 1.0 / static_cast<double>(++count_) : 1.0 / window;
    mean_ += (time - mean_) * weight;
    mean_square_ += (time * time - mean_square_) * weight;
  }
  /// The expected wait of a new acquire of one slot. Empty if too few holds were seen. It assumes that all processes
  /// hold slots for about as long as this one, and that nobody overtakes.
  std::optional<duration> expected_wait(const queue_state& queue) const noexcept {
    if (queue.free > queue.before) return duration(0);
    if (count_ < least || queue.limit == 0) return {};
    // On average, a hold that is seen at a random time lasts this much longer.
    const double rest = mean_ > 0 ? mean_square_ / (2 * mean_) : 0;
    const double wait =
        (rest + static_cast<double>(queue.before - queue.free) * mean_) / static_cast<double>(queue.limit);
    constexpr double longest = 1e18;  // a larger number might not fit into a duration
    return duration(static_cast<duration::rep>(wait < longest ? wait : longest));
  }

private:
  static constexpr std::size_t least = 20;
  static constexpr std::size_t window = 64;

  std::size_t count_ = 0;
  double mean_ = 0, mean_square_ = 0;  ///< in nanoseconds
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <utility>

#include "protocol/base/time.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::protocol {

/// Finds out whether a blocking query without news was answered because its wait had expired. If it was answered
/// earlier, all of Consul's state may have been replaced, as by a restored snapshot. Then everything has to be read.
///
/// An agent may let queries wait for less time than they ask for (`max_query_time`), and no reply says so. This class
/// learns that limit from an answer that comes too early, if the next read shows nothing new.
class wait_limit {
public:
  /// `elapsed`: the time since the query was sent. `wait`: the time that it asked for. `last_sent`: the last request so
  /// far.
  bool is_over(duration elapsed, duration wait, request_id last_sent) {
    suspected_ = {};
    const bool has_limit = longest_ != duration();
    if (has_limit && elapsed >= shortest_ * 9 / 10 && elapsed <= longest_ * 9 / 8) return true;
    if (elapsed >= wait * 9 / 10) {
      if (elapsed > longest_) shortest_ = longest_ = {};  // the agent can wait longer
      return true;
    }
    suspected_ = elapsed;
    as_of_ = last_sent;
    return false;
  }
  /// Everything was read by request `id`. `is_news`: the read showed something new, such as another record. (The pool
  /// does not count new contenders.)
  void answered(request_id id, bool is_news) {
    if (id <= as_of_) return;  // it was sent before
    const duration its = std::exchange(suspected_, {});
    if (its == duration() || is_news) return;
    shortest_ = longest_ == duration() ? its : std::min(shortest_, its);
    longest_ = std::max(longest_, its);
  }

private:
  // The shortest and the longest time after which the agent has answered queries that asked for more. Each is the sum
  // of the agent's limit and the time that the answer takes. 0: the agent is not known to have a limit.
  duration shortest_{};
  duration longest_{};
  request_id as_of_ = 0;  ///< only a later request is the next read
  duration suspected_{};  ///< such a time, if the next read shows nothing new; 0: no answer came early
};

}  // namespace holdfast::protocol

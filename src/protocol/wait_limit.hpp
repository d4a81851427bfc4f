#pragma once

#include <algorithm>
#include <utility>

#include "protocol/events.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

/// Tells whether a blocking query without news was answered because its wait was over. If it was answered earlier, all
/// of Consul's state may have been replaced, as by a restored snapshot: then everything has to be read.
///
/// An agent may let queries wait for less time than they ask for (`max_query_time`), and says so in no reply. It is
/// learned: from an answer that comes too early, and a read after it that shows nothing new.
class wait_limit {
public:
  /// `elapsed`: since the query was sent. `wait`: what it asked for. `last_sent`: the last request so far.
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
  /// Everything was read by this request.
  void answered(request_id id, bool is_news) {
    if (id <= as_of_) return;  // it was sent before
    const duration its = std::exchange(suspected_, {});
    if (its == duration() || is_news) return;
    shortest_ = longest_ == duration() ? its : std::min(shortest_, its);
    longest_ = std::max(longest_, its);
  }

private:
  // How long the agent has let queries wait that asked for more: its limit, and the time that the answers take. 0: it
  // is not known to have a limit.
  duration shortest_{};
  duration longest_{};
  request_id as_of_ = 0;  ///< only a later request is the next read
  duration suspected_{};  ///< one more, if the next read shows nothing new; 0: nothing was answered early
};

}  // namespace holdfast::protocol

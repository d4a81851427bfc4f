#pragma once

#include "protocol/time.hpp"

namespace holdfast::protocol {

/// Tells whether a blocking query without news was answered because its wait was over. If it was answered earlier, all
/// of Consul's state may have been replaced, as by a restored snapshot: then everything has to be read.
///
/// An agent may let queries wait for less time than they ask for (`max_query_time`), and says so in no reply. It is
/// learned: from an answer that comes too early, and a read after it that shows nothing new.
class wait_limit {
public:
  /// `elapsed`: since the query was sent. `wait`: what it asked for.
  bool is_over(duration elapsed, duration wait) {
    suspected_ = {};
    const bool is_of_agent = limit_ != duration() && elapsed >= limit_ * 9 / 10 && elapsed <= limit_ * 9 / 8;
    if (is_of_agent) return true;
    if (elapsed >= wait * 9 / 10) {
      if (elapsed > limit_) limit_ = {};  // the agent can wait longer
      return true;
    }
    suspected_ = elapsed;
    return false;
  }
  /// Everything was read.
  void looked(bool is_news) {
    if (suspected_ != duration() && !is_news) limit_ = suspected_;
    suspected_ = {};
  }

private:
  duration limit_{};      ///< how long the agent lets a query wait; 0: as long as it asks for
  duration suspected_{};  ///< the same, if the next read shows nothing new; 0: nothing was answered early
};

}  // namespace holdfast::protocol

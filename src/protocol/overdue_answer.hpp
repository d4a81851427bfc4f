#pragma once

#include <algorithm>

#include "protocol/context.hpp"

namespace holdfast::protocol {

/// Whether an answer that was due has not come. If this process was away, it may lie here unread, or the request has
/// just been sent: so it gets a moment more.
class overdue_answer {
public:
  bool check(context& ctx, time_point when, duration moment) {
    if (!ctx.due_or_wake(when)) {
      over();
      return false;
    }
    since_ = std::min(since_, ctx.now());
    return ctx.due_or_wake(since_ + moment);
  }
  void over() { since_ = never; }

private:
  time_point since_ = never;
};

}  // namespace holdfast::protocol

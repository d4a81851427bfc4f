// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>

#include "protocol/core/context.hpp"

namespace holdfast::protocol {

/// Finds out whether an answer that was due has not come. If this process was suspended, the answer may have arrived
/// and not been read yet, or the request has only just been sent. So the answer gets a moment more.
class overdue_answer {
public:
  template <class Context>
  bool check(Context& ctx, time_point when, duration moment) {
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

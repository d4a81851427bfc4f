// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The time as of which a question is asked, and the earliest later time at which its answer may be another one, if
/// nothing but time passes. A question changes no state and sets no timer. The step that asks it does
/// (`basic_context::ask`).
class moment {
public:
  explicit moment(time_point now) : now_(now) {}

  time_point now() const { return now_; }
  /// Whether this time has come. If it has not, the answer changes then at the latest.
  bool has_come(time_point when) {
    if (when <= now_) return true;
    changes_at_ = std::min(changes_at_, when);
    return false;
  }
  time_point changes_at() const { return changes_at_; }

private:
  time_point now_;
  time_point changes_at_ = never;
};

}  // namespace holdfast::protocol

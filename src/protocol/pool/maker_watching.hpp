// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <utility>

#include "protocol/core/context.hpp"

namespace holdfast::protocol {

/// Decides when the shell watches the makers on this host. It does so while somebody here waits for a slot of another
/// process, and for `longest` after that (`pool_options::watch_makers`). If that time is 0, it never does.
class maker_watching {
public:
  void check(context& ctx, bool waits, bool is_closing, duration longest) {
    if (longest == duration::zero()) return;
    waits = waits && !is_closing;
    if (waits) {
      unused_since_ = never;
    } else if (unused_since_ == never) {
      unused_since_ = ctx.now();
    }
    const bool on = waits || (on_ && !is_closing && !ctx.due_or_wake(unused_since_ + longest));
    if (on != std::exchange(on_, on)) ctx.act(action::watch_makers{on});
  }
  /// Whether makers are watched for somebody who waits now.
  bool is_needed() const { return on_ && unused_since_ == never; }

private:
  bool on_ = false;                  ///< the shell was asked to watch makers
  time_point unused_since_ = never;  ///< since when nobody here has waited for another process
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <utility>

#include "protocol/core/context.hpp"
#include "protocol/core/outage.hpp"

namespace holdfast::protocol {

/// The base class of parts whose requests may fail. It keeps the failures since the last success.
class fallible {
public:
  const outage& failures() const { return failures_; }
  /// A request has failed. `asked_at`: when it was sent (`outage::failed`).
  void failed(context& ctx, failure why, time_point asked_at = never) {
    failures_.failed(std::move(why), ctx.now(), ctx.random(), asked_at);
  }
  /// A request has succeeded, or the failures do not matter any more.
  void works() { failures_.over(); }
  /// The next request does not wait for the pause after a failure.
  void retry_now() { failures_.retry_now(); }

  /// To be called when a request has failed (or succeeded). Returns true if the log does not say so yet. Between two
  /// lines "failed" the log has a line "works again", even if `works` was called because the failures did not matter.
  bool is_news_of_failure() { return !std::exchange(is_told_of_failure_, true); }
  bool is_news_of_success() { return std::exchange(is_told_of_failure_, false); }

private:
  outage failures_;
  bool is_told_of_failure_ = false;
};

}  // namespace holdfast::protocol

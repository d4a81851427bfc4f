// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <utility>

#include "protocol/base/backoff.hpp"
#include "protocol/base/random.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::protocol {

/// A run of failures without a success between: when it began, and when to try again (exponential backoff with jitter).
class outage {
public:
  bool on() const { return failures_ != 0; }
  time_point since() const { return since_; }
  time_point retry_at() const { return retry_at_; }
  const failure& last() const { return last_; }
  /// When the outage will have lasted for `most`. `never` if there is none.
  time_point lasts_until(duration most) const { return on() ? since_ + most : never; }

  /// `asked_at`: when the failed request was sent. After the first failure, the outage has lasted since then, or since
  /// `now` if no such time is given.
  void failed(failure why, time_point now, random_source& random, time_point asked_at = never) {
    if (failures_++ == 0) since_ = std::min(asked_at, now);
    retry_at_ = now + random.between(first_pause, backoff_bound(failures_, first_pause, longest_pause));
    last_ = std::move(why);
  }
  void over() {
    if (on()) *this = outage();  // `over` is called far more often than an outage ends
  }
  void retry_now() { retry_at_ = time_point::min(); }

private:
  static constexpr duration first_pause = std::chrono::milliseconds(10);
  static constexpr duration longest_pause = std::chrono::seconds(1);

  unsigned failures_ = 0;
  time_point since_ = never;
  time_point retry_at_ = time_point::min();
  failure last_;
};

}  // namespace holdfast::protocol

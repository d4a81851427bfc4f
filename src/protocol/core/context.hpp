// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "protocol/base/random.hpp"
#include "protocol/core/actions.hpp"
#include "protocol/core/measurement.hpp"
#include "protocol/core/moment.hpp"

namespace holdfast::protocol {

/// The state that the parts of a core share during a step: the time, random numbers, the numbers of requests, and the
/// list of actions for the shell. Parts receive it with each call and do not keep it, so that a pool can be copied.
/// `AnyAction` is the variant of all actions of the core.
template <class AnyAction>
class basic_context {
public:
  explicit basic_context(std::uint64_t seed) : random_(seed) {}

  /// Begins a step. The core's time never goes backwards.
  void begin(time_point now, std::vector<AnyAction>& out) {
    now_ = std::max(now_, now);
    out_ = &out;
    measured_.clear();
  }
  void end() { out_ = nullptr; }

  time_point now() const { return now_; }
  random_source& random() { return random_; }

  /// The latest time at which the next `tick` is due.
  time_point wake() const { return wake_; }
  void wake_at(time_point when) { wake_ = std::min(wake_, when); }
  /// Forgets all timers so far, usually because everything is evaluated again. `wake` becomes `instead`. Returns the
  /// old `wake`.
  time_point forget_times(time_point instead = never) { return std::exchange(wake_, instead); }
  /// Returns true if this time has come. Otherwise it sets a timer for it.
  bool due_or_wake(time_point when) {
    if (when <= now_) return true;
    wake_at(when);
    return false;
  }

  /// Asks a question as of now, sets a timer for the time at which its answer changes, and returns the answer.
  template <class Question>
  auto ask(Question question) {
    moment at(now_);
    auto answer = question(at);
    wake_at(at.changes_at());
    return answer;
  }

  template <class Action>
  void act(Action a) {
    out_->emplace_back(std::move(a));
  }
  std::size_t actions() const { return out_->size(); }

  /// Notes a measurement for statistics.
  void measure(measurement m) { measured_.push_back(m); }
  /// The measurements of the last step.
  const measurements& measured() const { return measured_; }

  request_id last_request() const { return last_request_; }
  request_id new_request() { return ++last_request_; }

private:
  time_point now_{};
  time_point wake_ = never;
  random_source random_;
  std::vector<AnyAction>* out_ = nullptr;
  request_id last_request_ = 0;
  measurements measured_;
};

using context = basic_context<core_action>;

}  // namespace holdfast::protocol

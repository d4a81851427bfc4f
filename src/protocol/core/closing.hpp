// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <utility>

#include "protocol/base/failure.hpp"
#include "protocol/base/time.hpp"
#include "protocol/base/transitions.hpp"
#include "protocol/core/user_actions.hpp"

namespace holdfast::protocol {

/// The end of a core. The core is open, or closing, maybe until a deadline, or closed.
class closing {
public:
  bool has_begun() const { return state_ != state::open; }
  bool is_over() const { return state_ == state::over; }
  /// True if no request can be made any more.
  bool at_once() const { return at_once_; }

  void begin() {
    if (state_ == state::open) state_.go_to(state::closing);
  }
  template <class Context>
  void within(Context& ctx, duration time) {
    deadline_ = std::min(deadline_, ctx.now() + time);
  }
  template <class Context>
  void begin_at_once(Context& ctx) {
    at_once_ = nothing_in_use_ = true;
    deadline_ = ctx.now();
  }
  /// All users have released their slots. Starts the time limit for releasing sessions and entries in Consul, however
  /// long the users have taken. If that time limit has been started before, it stays as it is.
  template <class Context>
  void nobody_uses_anything(Context& ctx, duration time) {
    if (!std::exchange(nothing_in_use_, true)) deadline_ = ctx.now() + time;
  }
  /// The time for users has expired. Starts the time limit for releasing sessions and entries in Consul.
  template <class Context>
  void once_more(Context& ctx, duration time) {
    nothing_in_use_ = true;
    deadline_ = ctx.now() + time;
    ctx.wake_at(deadline_);
  }
  /// When the core closes, even if something is left to do. `never` if it has no limit.
  time_point deadline() const { return deadline_; }
  template <class Context>
  void end(Context& ctx, failure why) {
    state_.go_to(state::over);
    ctx.act(action::closed{std::move(why)});
  }

private:
  enum class state { open, closing, over };
  static constexpr transition<state> transitions[] = {
      {outside, state::open},
      {state::open, state::closing},
      {state::closing, state::over},
  };

  guarded_state<state, transitions> state_{};
  bool at_once_ = false;
  bool nothing_in_use_ = false;  ///< the deadline is now that for releasing sessions and entries in Consul
  time_point deadline_ = never;
};

}  // namespace holdfast::protocol

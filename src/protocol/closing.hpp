#pragma once

#include <algorithm>
#include <utility>

#include "protocol/context.hpp"
#include "protocol/transitions.hpp"

namespace holdfast::protocol {

/// How a core comes to its end: it is open, or closing until a deadline, or closed.
class closing {
public:
  bool has_begun() const { return state_ != state::open; }
  bool is_over() const { return state_ == state::over; }
  /// No request can be made any more.
  bool at_once() const { return at_once_; }

  void begin() {
    if (state_ == state::open) state_.go_to(state::closing);
  }
  void within(context& ctx, duration time) { deadline_ = std::min(deadline_, ctx.now() + time); }
  void begin_at_once(context& ctx) {
    at_once_ = nothing_in_use_ = true;
    deadline_ = ctx.now();
  }
  /// All users have let go. What goes back has its time from then on, however long they have taken.
  void nobody_uses_anything(context& ctx, duration time) {
    if (!std::exchange(nothing_in_use_, true)) deadline_ = ctx.now() + time;
  }
  /// The users' time is over, and what goes back gets some, too.
  void once_more(context& ctx, duration time) {
    nothing_in_use_ = true;
    deadline_ = ctx.now() + time;
    ctx.wake_at(deadline_);
  }
  bool is_due(context& ctx) const { return ctx.due_or_wake(deadline_); }
  void end(context& ctx, failure why) {
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
  bool nothing_in_use_ = false;  ///< all users have let go, and the deadline was set anew then
  time_point deadline_ = never;
};

}  // namespace holdfast::protocol

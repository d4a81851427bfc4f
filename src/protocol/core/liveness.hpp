// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "protocol/base/failure.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/overdue_answer.hpp"
#include "protocol/core/user_actions.hpp"

namespace holdfast::protocol {

/// Whether the application answers (`holdfast::alive_check`). A core asks while it has something to lose.
class liveness {
public:
  /// `within`: the time after the last yes. 0: nothing is asked. `lock`: the name of the lock.
  liveness(duration within, std::string lock) : within_(within), lock_(std::move(lock)) {}

  /// Asks if that is due. `is_needed`: the core has sessions or waiters. A silent application stays silent until it
  /// answers, also if the core has nothing to lose meanwhile.
  template <class Context>
  void check(Context& ctx, bool is_needed) {
    if (within_ == duration(0)) return;
    if (!is_needed) {
      is_watched_ = false;
      if (!is_silent_) return overdue_.over();
    }
    // An answer that is still awaited may have been awaited for long.
    if (is_needed && !std::exchange(is_watched_, true) && !is_silent_ && !is_pending_) last_yes_ = ctx.now();
    if (is_needed && !is_pending_ && ctx.due_or_wake(ask_at_)) {
      is_pending_ = true;
      ask_at_ = ctx.now() + within_ / 4;
      ctx.act(action::ask_alive());
    }
    tell(ctx, overdue_.check(ctx, last_yes_ + within_, within_ / 10));
  }
  void answered(bool is_yes, time_point now) {
    is_pending_ = false;
    if (is_yes) last_yes_ = now;
  }
  bool is_silent() const { return is_silent_; }
  failure why_silent() const {
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(within_);
    return {make_error_code(error::timed_out),
            {"the application has not answered for " + std::to_string(time.count()) + " ms", lock_, {}, {}, {}}};
  }

private:
  template <class Context>
  void tell(Context& ctx, bool is_silent) {
    if (std::exchange(is_silent_, is_silent) == is_silent) return;
    ctx.act(action::note{is_silent ? log_kind::application_silent : log_kind::application_answers, lock_});
  }

  duration within_;
  std::string lock_;
  time_point last_yes_{};
  time_point ask_at_ = time_point::min();
  /// If this process was suspended, the answer gets a moment more.
  overdue_answer overdue_;
  bool is_watched_ = false;
  bool is_pending_ = false;  ///< the application was asked, and has not answered
  bool is_silent_ = false;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/intrusive/list.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "net/asio.hpp"

// Timers and lists of waiting coroutines, from which the parts of the transport are made.
namespace holdfast::net {

/// Calls a function once at a given time, unless it is cancelled before. It is set only while there are requests or
/// trials, because a timer alone must not keep the io_context running.
class wake_timer {
public:
  explicit wake_timer(const strand_type& strand) : timer_(strand) {}

  bool may_be_set() const noexcept { return timer_ && !is_set_; }
  /// The handler locks `owner` while `then` runs. If the owner has been destroyed, the handler touches nothing, because
  /// this timer has been destroyed with it.
  template <class Function>
  void set(time_point when, std::weak_ptr<void> owner, Function then) {
    is_set_ = true;
    timer_->expires_at(when);
    timer_->async_wait([this, owner = std::move(owner), then = std::move(then)](const boost::system::error_code& ec) {
      const std::shared_ptr<void> alive = owner.lock();
      if (ec || !alive || !std::exchange(is_set_, false)) return;
      then();
    });
  }
  /// Sets the timer to `when`, unless it is already set to that time or an earlier one.
  template <class Function>
  void set_by(time_point when, std::weak_ptr<void> owner, Function then) {
    if (!timer_ || (is_set_ && timer_->expiry() <= when)) return;
    cancel();
    set(when, std::move(owner), std::move(then));
  }
  void cancel() {
    if (timer_) timer_->cancel();
    is_set_ = false;
  }
  void close() noexcept { timer_.reset(); }

private:
  std::optional<timer_type> timer_;  // empty after close()
  bool is_set_ = false;
};

/// A coroutine that waits for an event until its own deadline.
struct waiter : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  waiter(const strand_type& strand, time_point until) : timer(strand, until) {}

  timer_type timer;
  bool is_woken = false;
};
using waiter_list = boost::intrusive::list<waiter, boost::intrusive::constant_time_size<false>>;

inline void wake(waiter& one) noexcept {
  one.unlink();
  one.is_woken = true;
  one.timer.cancel();
}

inline void wake_all(waiter_list& all) noexcept {
  while (!all.empty()) wake(all.front());
}

}  // namespace holdfast::net

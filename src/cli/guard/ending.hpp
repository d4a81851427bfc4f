// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <optional>

namespace holdfast::cli {

/// Decides when the processes of a command must end: SIGTERM first, and SIGKILL before the lease of the slot is over.
/// After `kill`, SIGKILL comes without a SIGTERM. If `due` is called late, its steps come late, too.
/// It has no clock of its own. All times are times on CLOCK_BOOTTIME, which also runs while the machine is suspended.
class ending {
public:
  using time = std::chrono::nanoseconds;

  enum class step { none, terminate, kill };

  /// `grace` is the longest time between SIGTERM and SIGKILL. SIGKILL is due `margin` before the lease is over at the
  /// latest.
  ending(time grace, time margin) : grace_(grace), margin_(margin) {}

  /// The lease now ends at `end`. A later renewal does not take back a SIGTERM, nor does it postpone the SIGKILL that
  /// follows: the command was asked to end.
  void set_lease_end(time end);
  /// SIGTERM is due at once, because the slot is not wanted any more.
  void stop(time now);
  /// SIGKILL is due at once, because another holder may have the slot already.
  void kill(time now);

  /// Returns the step that is due now, or `none`. `terminate` and `kill` are each returned at most once.
  step due(time now);
  /// True once `due` has returned `terminate` only because the lease ends. A SIGKILL after `stop` or `kill` does not
  /// count.
  bool by_lease() const { return by_lease_; }
  /// When `due` has something to return. Empty if nothing is due without a new event.
  std::optional<time> next() const;

private:
  std::optional<time> terminate_at() const;

  time grace_, margin_;
  std::optional<time> last_, stop_at_, kill_at_;
  bool killed_ = false, by_lease_ = false;
};

}  // namespace holdfast::cli

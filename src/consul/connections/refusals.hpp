// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <random>

#include "consul/connections/concurrency_limit.hpp"

namespace holdfast::consul::detail {

/// The refusals of new connections by the agent, and what follows from them for blocking queries. Pure: the time is an
/// argument.
class refusals {
public:
  using time_point = concurrency_limit::time_point;

  /// A client believes that the agent has too many connections when so many new ones were closed in a row, and requests
  /// on older ones were answered meanwhile.
  static constexpr unsigned believed_after = 3;
  /// A row of refusals ends when there is none for this long.
  static constexpr std::chrono::seconds row_ends_after{10};
  /// A client with up to `kept_for_good` running blocking queries keeps their connections. With more, a connection
  /// whose query has been answered is closed if it is older than about `ceded_after`.
  static constexpr std::size_t kept_for_good = 4;
  static constexpr std::chrono::milliseconds ceded_after{4'000};

  /// `most` is the number of blocking queries that may run at once without refusals.
  explicit refusals(std::size_t most) : most_(most), limit_(most) {}

  /// Whether the reason of a refusal is probably that the agent has too many connections. It is news if nothing was
  /// refused for a while.
  enum class verdict { doubted, believed, news };
  /// A new connection was refused while `running` blocking queries ran. `others_work` says whether the client has other
  /// open connections. An agent that dies, a proxy whose agent is
  /// absent and a port without HTTP also close new connections. So the reason is believed only if it `is_certain`, or
  /// if the refusals go on while the agent works for others.
  verdict refused(bool is_certain, bool others_work, std::size_t running, time_point now);
  /// The agent has served a request that was sent at this time, on a connection that was opened at this time.
  void answered(time_point opened_at, time_point sent_at) noexcept;
  /// The agent has stopped or was left.
  void forget();

  /// Returns true if the last new connection was refused, and the reason may be that the agent has too many.
  bool is_suspected() const noexcept { return in_a_row_ != 0 && (others_work_ || goes_on()); }
  /// Returns true if the last event was a refusal that was believed.
  bool is_last() const noexcept { return is_last_; }
  /// Returns true if there was a refusal lately that was believed.
  bool is_pressed(time_point now) const noexcept { return limit_.is_pressed(now); }
  /// The number of blocking queries that may run at once now, and the next time at which it may grow.
  std::size_t allowed(time_point now) { return limit_.allowed(now); }
  time_point changes_at() const noexcept { return limit_.changes_at(); }

  /// Returns true if a connection that was opened at this time, and whose query has been answered, is to be closed so
  /// that another process can get it. If the connection is closed, `ceded` is to be called.
  bool is_to_cede(time_point opened_at, std::size_t running, time_point now, std::minstd_rand& random) const;
  void ceded(time_point now) { limit_.ceded(now); }

  /// Returns true if so many were refused in a row that one more attempt at once would not help.
  bool goes_on() const noexcept { return in_a_row_ >= believed_after; }

private:
  std::size_t most_;
  concurrency_limit limit_;
  unsigned in_a_row_ = 0;           // refusals of new connections since one was accepted
  time_point last_at_{};            // the last of them
  time_point first_at_{};           // the first of them
  bool others_are_served_ = false;  // since the first of them
  bool others_work_ = false;        // when the last of them was refused
  bool is_last_ = false;
};

}  // namespace holdfast::consul::detail

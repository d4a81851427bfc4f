#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>

namespace holdfast::consul::detail {

/// How many blocking queries may run at once. An agent's connections are for all processes of a host together, and of
/// the others a client sees nothing but that a new connection is refused. So it gives up what was refused, tries one
/// more now and then, and from time to time lets go of a connection that works, which another may get: each lets go the
/// more often the more it has, so that in the end all have about as many. Pure: time is an argument.
class concurrency_limit {
public:
  using time_point = std::chrono::steady_clock::time_point;

  /// So many are tried whatever is refused.
  static constexpr std::size_t least = 2;
  /// How long after a refusal one more is tried.
  static constexpr std::chrono::milliseconds before_one_more{2'000};
  /// How long the place of a connection that was let go stays free for others.
  static constexpr std::chrono::milliseconds before_it_is_taken_back{300};
  /// For how long a refusal is remembered.
  static constexpr std::chrono::milliseconds pressed_for{60'000};

  explicit concurrency_limit(std::size_t most) noexcept : most_(most), target_(most) {}

  std::size_t allowed(time_point now) {
    while (target_ < most_ && grows_at_ <= now) {
      ++target_;
      grows_at_ += before_one_more;
    }
    while (!free_until_.empty() && free_until_.front() <= now) free_until_.pop_front();
    return at_least(target_ - std::min(target_, free_until_.size()));
  }

  /// When more may be allowed, if nothing else happens; max: never.
  time_point changes_at() const noexcept {
    const time_point grows = target_ < most_ ? grows_at_ : time_point::max();
    return free_until_.empty() ? grows : std::min(grows, free_until_.front());
  }

  /// A connection was refused, while so many queries ran that are to run on.
  void refused(std::size_t running, time_point now) noexcept {
    target_ = at_least(std::min(target_, running));
    grows_at_ = now + before_one_more;
    pressed_until_ = now + pressed_for;
  }
  bool is_pressed(time_point now) const noexcept { return now < pressed_until_; }

  /// A connection was let go.
  void ceded(time_point now) { free_until_.push_back(now + before_it_is_taken_back); }

private:
  std::size_t at_least(std::size_t n) const noexcept { return std::max(n, std::min(least, most_)); }

  std::size_t most_;
  std::size_t target_;  // as far as refusals tell
  time_point grows_at_;
  time_point pressed_until_;
  std::deque<time_point> free_until_;
};

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/base/backoff.hpp"
#include "protocol/core/context.hpp"

namespace holdfast::protocol {

/// Keeps for the log of one lock how many kinds of contradictions it was told. The answers agree again when each kind
/// is over.
class contradiction_news {
public:
  explicit contradiction_news(std::string lock) : lock_(std::move(lock)) {}
  /// `is_told`: whether the log has heard of it from the caller.
  void tell(context& ctx, bool& is_told, std::string what) {
    has_told(is_told);
    ctx.act(action::note{log_kind::answers_contradict, lock_, {}, std::move(what)});
  }
  /// A core before this one has told.
  void has_told(bool& is_told) { open_ += std::exchange(is_told, true) ? 0 : 1; }
  void over(context& ctx, bool& is_told) {
    if (std::exchange(is_told, false) && --open_ == 0) ctx.act(action::note{log_kind::answers_agree, lock_});
  }

private:
  std::string lock_;
  unsigned open_ = 0;
};

/// Answers in a row that cannot all be true: a read does not show what was written, or a blocking query returns at once
/// although nothing has changed. Something on the way keeps replies, or changes names of keys (as Consul 1.12.0 did to
/// a '%'). Without a pause, the same answers would lead to the same requests again and again. So the pauses double, and
/// from the tenth time on the log says what does not add up.
class contradictions {
public:
  /// One that follows no other may have a good reason: an operator has deleted a key. So it has no pause. `entries`:
  /// how many entries the write had that is not shown. Each costs a session when it is sent again.
  void found(context& ctx, contradiction_news& news, std::string_view what, std::size_t entries = 1) {
    if (ctx.now() > found_at_ + remembered_for) count_ = 0;
    found_at_ = ctx.now();
    ++count_;
    pause(ctx, entries);
    if (count_ < told_first || count_ != told_at()) return;
    news.tell(ctx, is_told_, std::string(what) + ", " + std::to_string(count_) + " times in a row");
  }
  /// Takes over what another one has counted. `found_at`: when it has found the last one.
  void go_on_from(context& ctx, contradiction_news& news, unsigned count, time_point found_at) {
    if (count == 0 || ctx.now() > found_at + remembered_for) return;
    found_at_ = found_at;
    count_ = count;
    if (count_ >= told_first) news.has_told(is_told_);
    pause(ctx);
  }
  /// The last answers agree.
  void none(context& ctx, contradiction_news& news) {
    count_ = 0;
    retry_now();
    news.over(ctx, is_told_);
  }
  void retry_now() { retry_at_ = time_point::min(); }
  time_point retry_at() const { return retry_at_; }
  /// Whether the log has said so, and the last one was found a moment ago.
  bool stands(time_point now) const { return count_ >= told_first && now <= found_at_ + remembered_for; }
  unsigned count() const { return count_; }
  time_point found_at() const { return found_at_; }

private:
  void pause(context& ctx, std::size_t entries = 1) {
    using std::chrono_literals::operator""ms;
    if (count_ == 1) return retry_now();
    const duration bound = backoff_bound(count_ - 2, 2ms * std::max<std::size_t>(entries, 1), 1000ms);
    retry_at_ = ctx.now() + ctx.random().between(bound / 2, bound);
  }
  /// The least of 10, 20, 40, ... that is not below the count.
  unsigned told_at() const {
    unsigned at = told_first;
    while (at < count_) at *= 2;
    return at;
  }

  static constexpr unsigned told_first = 10;
  static constexpr duration remembered_for = std::chrono::seconds(10);  ///< far longer than the longest pause

  unsigned count_ = 0;
  bool is_told_ = false;
  time_point found_at_{};
  time_point retry_at_ = time_point::min();
};

/// Whether a blocking query of this wait came back at once although nothing had changed. Agents end long waits early,
/// but not that early.
constexpr bool is_early(bool is_unchanged, duration wait, duration took) {
  return is_unchanged && took < std::min<duration>(wait / 4, std::chrono::milliseconds(20));
}
inline constexpr std::string_view early_answer = "a blocking query comes back at once, though nothing has changed";

}  // namespace holdfast::protocol

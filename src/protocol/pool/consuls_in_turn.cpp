// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/consuls_in_turn.hpp"

#include <algorithm>

namespace holdfast::protocol {

bool consuls_in_turn::is_known(std::uint64_t created) const {
  return created != 0 && std::find(before_.begin(), before_.end(), created) != before_.end();
}

bool consuls_in_turn::saw(context& ctx, contradiction_news& news, std::uint64_t created, request_id asked,
                          const pool_options& options) {
  // The reply to an older request may show what was there before.
  if (current_ && asked <= changed_before_) return false;
  if (!current_ || created == *current_) {
    agrees_ = current_.has_value();
    current_ = created;
    return false;
  }
  agrees_ = false;
  changed_before_ = ctx.last_request();
  if (*current_ != 0 && !is_known(*current_)) {
    before_[next_] = *current_;
    next_ = (next_ + 1) % before_.size();
  }
  current_ = created;
  if (is_known(created)) {
    if (ctx.now() > returned_at_ + close_together) returns_ = 0;
    returned_at_ = ctx.now();
    ++returns_;
  }
  if (!stands() && returns_ < returns_min) return false;
  if (!stands()) news.tell(ctx, is_told_, cause(created));
  until_ = ctx.now() + options.ttl;
  return true;
}

bool consuls_in_turn::check(context& ctx, contradiction_news& news) {
  if (!stands() || !ctx.due_or_wake(until_)) return false;
  if (!agrees_) {
    until_ = ctx.now() + read_again;
    ctx.wake_at(until_);
    return true;
  }
  until_ = none;
  returns_ = 0;
  news.over(ctx, is_told_);
  return false;
}

void consuls_in_turn::go_on(context& ctx, contradiction_news& news, time_point until) {
  if (until <= ctx.now()) return;
  until_ = until;
  news.has_told(is_told_);
}

std::string consuls_in_turn::cause(std::uint64_t created) {
  return "requests reach several Consuls in turn: the lock key with CreateIndex " + std::to_string(created) +
         " goes away and comes back";
}

failure consuls_in_turn::why(const pool_options& options) const {
  return {error::not_consul,
          {"answers contradict each other: " + cause(current_.value_or(0)), options.lock_key, {}, {}}};
}

}  // namespace holdfast::protocol

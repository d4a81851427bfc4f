// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/slot_search.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

namespace {

bool contains(const std::vector<bool>& ours, std::uint32_t number) { return number < ours.size() && ours[number]; }

}  // namespace

void slot_search::begin(bool tries_last) {
  candidates_.clear();
  lost_races_ = 0;
  guessed_ = false;
  tries_last_ = tries_last;
  state_.go_to(phase::asking);
}

void slot_search::rest() {
  candidates_.clear();
  tries_last_ = false;
  state_.go_to(phase::resting);
}

std::optional<std::uint32_t> slot_search::due_again(broker_context& ctx, const std::vector<bool>& ours) {
  for (const auto& [number, when] : again_) {
    if (!ctx.due_or_wake(when) || contains(ours, number)) continue;
    const std::uint32_t chosen = number;
    again_.erase(chosen);
    return chosen;
  }
  return {};
}

std::optional<slot_search::choice> slot_search::choose(broker_context& ctx, const std::vector<bool>& ours) {
  if (const auto number = due_again(ctx, ours)) return choice{*number, false};
  if (std::exchange(tries_last_, false) && last_ != 0 && !contains(ours, last_) && !is_left_to_others(last_))
    return choice{last_, false};
  while (is(phase::choosing) && !candidates_.empty()) {
    const duration highest(static_cast<duration::rep>(candidates_.size() - 1));
    const auto at = candidates_.begin() + ctx.random().between(duration(), highest).count();
    const std::uint32_t number = *at;
    candidates_.erase(at);
    if (!contains(ours, number) && !is_left_to_others(number)) return choice{number, !guessed_};
  }
  return {};
}

void slot_search::exhausted(broker_context& ctx, const broker_options& options) {
  if (guessed_) return found_none(ctx, ctx.last_request() + 1, options);
  state_.go_to(phase::asking);
}

request_id slot_search::ask(broker_context& ctx) {
  asked_at_ = ctx.now();
  state_.go_to(phase::probing);
  return request_ = ctx.new_request();
}

/// At most one such request is pending, also if nobody has waited for its answer meanwhile.
void slot_search::probe(broker_context& ctx) {
  if (has_request()) return state_.go_to(phase::probing);
  if (asked_count_ <= count_) asked_count_ = std::min(count_ + 1, slot_number_max);
  const request_id id = ask(ctx);
  ctx.act(action::probe{id, asked_count_});
}

void slot_search::create(broker_context& ctx, std::uint32_t count) {
  state_.go_to(phase::asking);
  const request_id id = ask(ctx);
  ctx.act(action::create{id, count});
}

void slot_search::forget_request() {
  request_ = 0;
  if (is(phase::probing)) state_.go_to(phase::asking);
}

void slot_search::guess() {
  guessed_ = true;
  candidates_.clear();
  for (std::uint32_t k = 1; k <= std::min(count_ + 1, slot_number_max); ++k) candidates_.push_back(k);
  state_.go_to(phase::choosing);
}

void slot_search::probed(broker_context& ctx, const event::probed& e, const std::vector<bool>& ours,
                         const broker_options& options) {
  request_ = 0;
  const auto gap = std::find_if(e.slots.begin(), e.slots.end(), [](const auto& each) { return !each.exists; });
  count_ = static_cast<std::uint32_t>(gap - e.slots.begin());
  if (!is(phase::probing)) return;                         // nobody waits any more
  if (gap == e.slots.end() && count_ < slot_number_max) {  // there may be more
    asked_count_ = std::min(2 * std::max(count_, 1u), slot_number_max);
    return state_.go_to(phase::asking);
  }
  asked_count_ = 0;
  if (count_ == 0) return state_.go_to(phase::asking);
  for (std::uint32_t k = 1; k <= count_; ++k)
    if (!e.slots[k - 1].taken && !contains(ours, k) && !is_left_to_others(k)) candidates_.push_back(k);
  if (candidates_.empty()) return found_none(ctx, e.id, options);
  state_.go_to(phase::choosing);
}

void slot_search::created() {
  request_ = 0;
  if (is(phase::probing)) state_.go_to(phase::asking);
}

void slot_search::saw(std::uint32_t number) {
  if (number <= count_) return;
  count_ = number;
  if (guessed_ && number < slot_number_max) candidates_.push_back(number + 1);
}

void slot_search::saw_none(std::uint32_t number) {
  count_ = std::min(count_, number - 1);
  again_.erase(number);
  if (last_ == number) last_ = 0;
}

void slot_search::lost_race(broker_context& ctx, unsigned most, const broker_options& options) {
  if (++lost_races_ >= most && (is(phase::choosing) || is(phase::asking)))
    found_none(ctx, ctx.last_request() + 1, options);
}

void slot_search::found_none(broker_context& ctx, request_id sought, const broker_options& options) {
  candidates_.clear();
  sought_ = std::max(sought_, sought);
  poll_at_ = ctx.now() + ctx.random().between(options.poll_interval / 2, options.poll_interval * 3 / 2);
  state_.go_to(phase::waiting);
}

}  // namespace holdfast::protocol

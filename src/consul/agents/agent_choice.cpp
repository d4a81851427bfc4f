// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/agents/agent_choice.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::consul::detail {

agent_choice::state agent_choice::current_state() const noexcept {
  const agent& its = agents_[current_];
  if (doubts_) return state::doubted;
  if (its.errs_since) return state::erring;
  return its.silent_since ? state::silent : state::working;
}

void agent_choice::answered(std::size_t which, time_point now) noexcept {
  agent& its = agents_[which];
  its.answered = now;
  its.errs_since.reset();
  its.silent_since.reset();
  its.avoided_for = {};
  if (which == current_) doubts_ = false;
}

void agent_choice::erred(std::size_t which, time_point now) noexcept {
  agent& its = agents_[which];
  its.answered = now;
  if (!its.errs_since) its.errs_since = now;
  its.silent_since.reset();
}

void agent_choice::silent(std::size_t which, time_point since) noexcept {
  agent& its = agents_[which];
  if (its.answered) since = std::max(since, *its.answered);
  its.silent_since = its.silent_since ? std::min(*its.silent_since, since) : since;
}

void agent_choice::not_reached(std::size_t which, time_point now, bool has_no_address) noexcept {
  agent& its = agents_[which];
  its.avoided_for = std::clamp<clock::duration>(2 * its.avoided_for, avoided_min, avoided_max);
  if (has_no_address) its.avoided_for = 2 * avoided_max;  // longer than any other
  its.avoided_until = now + its.avoided_for;
  if (which != current_) return;
  // The agents behind it in the order come first, then those before it. If all are avoided, the one whose time ends
  // first becomes current.
  std::size_t next = current_;
  for (std::size_t step = 1; step < agents_.size(); ++step) {
    const std::size_t each = (current_ + step) % agents_.size();
    const time_point best = std::max(agents_[next].avoided_until, now);
    if (std::max(agents_[each].avoided_until, now) < best) next = each;
  }
  if (next != current_) go_to(next, now);
}

void agent_choice::go_to(std::size_t which, time_point now) noexcept {
  current_ = which;
  doubts_ = false;
  for (agent& each : agents_) each.result.reset();
  agents_[which].errs_since.reset();
  agents_[which].silent_since.reset();
  return_at_ = which == 0 ? time_point::max() : now + returned_to_after;
}

std::optional<time_point> agent_choice::doubted_at() const noexcept {
  const agent& its = agents_[current_];
  std::optional<time_point> from = its.errs_since;
  if (its.silent_since) from = from ? std::min(*from, *its.silent_since) : its.silent_since;
  if (from) *from += doubted_after;
  return from;
}

void agent_choice::try_in(advice& into, std::size_t which, time_point now, clock::duration every) {
  agent& its = agents_[which];
  if (its.is_tried) return;
  if (its.tried && now < *its.tried + every) {
    into.evaluate_again_at = std::min(into.evaluate_again_at, *its.tried + every);
    return;
  }
  its.is_tried = true;
  its.tried = now;
  into.to_try.push_back(which);
}

std::optional<std::size_t> agent_choice::better_one(std::size_t end) const noexcept {
  for (std::size_t i = 0; i != end; ++i)
    if (i != current_ && agents_[i].result == trial::knows_leader) return i;
  return std::nullopt;
}

// If another agent knows a leader, and the current one does not or has not said so within `head_start`, the current one
// is left.
void agent_choice::weigh(advice& into, time_point now) {
  const auto other = better_one(agents_.size());
  const agent& its = agents_[current_];
  if (!other || its.result == trial::knows_leader) return;
  const time_point overdue = its.tried.value_or(now) + head_start;
  if (!its.result && now < overdue) {
    into.evaluate_again_at = std::min(into.evaluate_again_at, overdue);
    return;
  }
  into.has_left = true;
  go_to(*other, now);
}

agent_choice::advice agent_choice::evaluate(time_point now) {
  advice result;
  if (agents_.size() == 1) return result;
  const auto doubted = doubted_at();
  if (doubted && *doubted <= now) {
    if (!std::exchange(doubts_, true)) {
      for (agent& each : agents_) each.result.reset();
    }
    for (std::size_t i = 0; i != agents_.size(); ++i) try_in(result, i, now, doubted_after);
    weigh(result, now);
    return result;
  }
  doubts_ = false;
  if (doubted) result.evaluate_again_at = *doubted;
  if (return_at_ <= now) {
    if (const auto earlier = better_one(current_)) {
      go_to(*earlier, now);
    } else {
      for (std::size_t i = 0; i != current_; ++i) try_in(result, i, now, returned_to_after);
    }
  } else {
    result.evaluate_again_at = std::min(result.evaluate_again_at, return_at_);
  }
  return result;
}

// An agent that knows a leader is not silent. If requests are still pending, the transport reports `silent` for them
// again, so the agent stays doubted.
void agent_choice::tried(std::size_t which, trial result) noexcept {
  agent& its = agents_[which];
  its.is_tried = false;
  its.result = result;
  if (result == trial::knows_leader) its.silent_since.reset();
}

}  // namespace holdfast::consul::detail

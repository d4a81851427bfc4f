// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/referee.hpp"

#include <algorithm>

namespace holdfast::test {

using protocol::slot_id;
using protocol::ticket;
using protocol::time_point;

void referee::object(guarantee broken, const std::string& what) {
  if (broken_) return;
  broken_ = broken;
  violation_ = "G" + std::to_string(static_cast<int>(broken)) + " " + what;
}

void referee::asked(int process, ticket t, std::size_t which) {
  if (!waiting_[process].emplace(t, which).second) object(guarantee::answers, "a ticket is used twice");
}

void referee::answered(int process, ticket t) {
  if (waiting_[process].erase(t) == 0) object(guarantee::answers, "an acquire was answered that does not wait");
}

void referee::granted(int process, ticket t, slot_id slot, std::uint32_t count, fencing_token token, time_point now,
                      time_point deadline, bool was_taken_away) {
  const auto& queue = waiting_[process];
  const auto asked = queue.find(t);
  const std::size_t which = asked == queue.end() ? 0 : asked->second;
  if (std::any_of(queue.begin(), asked, [&](const auto& each) { return each.second == which; }))
    object(guarantee::order, "a later waiter of the same process overtook an earlier one");
  answered(process, t);
  if (!held_[process].emplace(slot, holding{count, deadline, which}).second)
    object(guarantee::answers, "a slot id was granted twice");
  // If there are more slots, the tokens of two holders need not be in order.
  if (deadline <= now || limit_ != 1 || was_taken_away || excused(now)) return;
  fencing_token& last = last_tokens_[which];
  if (token <= last) object(guarantee::tokens, "the fencing token did not grow: " + token.to_string());
  last = token;
}

void referee::updated(int process, slot_id slot, time_point deadline) {
  auto& slots = held_[process];
  const auto at = slots.find(slot);
  if (at == slots.end()) return object(guarantee::losses, "news of a slot that nobody holds");
  if (deadline < at->second.deadline) object(guarantee::losses, "a lease became shorter");
  at->second.deadline = deadline;
}

void referee::gone(int process, slot_id slot, bool by_user) {
  if (held_[process].erase(slot) == 0 && !by_user) object(guarantee::losses, "a slot was lost that nobody holds");
}

void referee::runs_on(int process, slot_id slot) {
  auto& slots = held_[process];
  const auto at = slots.find(slot);
  if (at == slots.end()) return object(guarantee::losses, "a slot was lost that nobody holds");
  running_[process].insert(slots.extract(at));
}

void referee::has_ended(int process, slot_id slot) { running_[process].erase(slot); }

void referee::stranger_holds(int number, bool holds) {
  if (holds)
    strangers_.insert(number);
  else
    strangers_.erase(number);
}

void referee::crashed(int process) {
  waiting_.erase(process);
  held_.erase(process);
  running_.erase(process);
}

std::uint32_t referee::believed(int process, time_point now) const {
  std::uint32_t count = 0;
  if (const auto slots = held_.find(process); slots != held_.end())
    for (const auto& [id, each] : slots->second)
      if (now < each.deadline) count += each.count;
  return count;
}

void referee::check_believers(time_point now, const std::function<bool(int, slot_id)>& excused) {
  if (this->excused(now)) return;
  std::fill(believers_.begin(), believers_.end(), 0);
  believers_.front() = strangers_.size();
  for (const auto& [process, slots] : held_)
    for (const auto& [id, each] : slots)
      if (now < each.deadline && !(excused && excused(process, id))) believers_[each.which] += each.count;
  check_limit(" believe that they hold, of ");
  if (running_.empty()) return;
  for (const auto& [process, slots] : running_)
    for (const auto& [id, each] : slots) believers_[each.which] += each.count;
  check_limit(" hold, or go on with what they have lost, of ");
}

void referee::check_limit(const char* what) {
  for (std::size_t i = 0; i != believers_.size(); ++i)
    if (believers_[i] > limit_)
      object(guarantee::limit, std::to_string(believers_[i]) + what + std::to_string(limit_) +
                                   (believers_.size() > 1 ? ", lock " + std::to_string(i) : ""));
}

bool referee::anyone_waits(int process) const {
  const auto at = waiting_.find(process);
  return at != waiting_.end() && !at->second.empty();
}

bool referee::holds(int process, slot_id slot) const {
  const auto at = held_.find(process);
  return at != held_.end() && at->second.contains(slot);
}

bool referee::holds_any(int process) const {
  const auto at = held_.find(process);
  return at != held_.end() && !at->second.empty();
}

}  // namespace holdfast::test

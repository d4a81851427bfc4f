#include "protocol/slow_takers.hpp"

namespace holdfast::protocol {

bool slow_takers::passed_over(std::string_view session) const {
  const auto at = takers_.find(session);
  return at != takers_.end() && at->second.passed_over;
}

std::vector<std::string> slow_takers::passed_over() const {
  std::vector<std::string> sessions;
  for (const auto& [session, its] : takers_)
    if (its.passed_over) sessions.push_back(session);
  return sessions;
}

void slow_takers::refresh(const snapshot& now) {
  std::erase_if(takers_, [&](const auto& each) {
    const contender* entry = now.find(each.first);
    return !entry || entry->modify_index != each.second.modify_index || !is_waiting(now, *entry);
  });
}

bool slow_takers::wait(context& ctx, const grant_plan& next, duration claim_timeout) {
  bool changed = false;
  for (const contender* entry : next.left_free) {
    const time_point until = ctx.now() + ctx.random().between(claim_timeout, claim_timeout * 3 / 2);
    taker& its = takers_.try_emplace(entry->session, taker{entry->modify_index, until}).first->second;
    if (!ctx.due_or_wake(its.until)) continue;
    its.passed_over = changed = true;
    ctx.act(action::note{"contender " + entry->session + " of another kind does not take its slot: passed over"});
  }
  return changed;
}

}  // namespace holdfast::protocol

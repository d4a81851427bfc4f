// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/claim_timeouts.hpp"

namespace holdfast::protocol {

bool claim_timeouts::passed_over(std::string_view session) const {
  const auto at = claims_.find(session);
  return at != claims_.end() && at->second.passed_over;
}

std::vector<std::string> claim_timeouts::passed_over() const {
  std::vector<std::string> sessions;
  for (const auto& [session, its] : claims_)
    if (its.passed_over) sessions.push_back(session);
  return sessions;
}

void claim_timeouts::refresh(const snapshot& now) {
  std::erase_if(claims_, [&](const auto& each) {
    const contender* entry = now.find(each.first);
    return !entry || entry->modify_index != each.second.modify_index || !is_waiting(now, *entry);
  });
}

bool claim_timeouts::pass_over_the_late(context& ctx, const grant_plan& next, const pool_options& options) {
  const duration claim_timeout = options.claim_timeout;
  bool changed = false;
  for (const contender* entry : next.left_free) {
    const time_point until = ctx.now() + ctx.random().between(claim_timeout, claim_timeout * 3 / 2);
    claim& its = claims_.try_emplace(entry->session, claim{entry->modify_index, until}).first->second;
    if (!ctx.due_or_wake(its.until)) continue;
    its.passed_over = changed = true;
    ctx.act(action::note{log_kind::contender_passed_over, options.prefix, entry->session});
  }
  return changed;
}

}  // namespace holdfast::protocol

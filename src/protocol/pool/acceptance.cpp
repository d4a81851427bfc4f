// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/acceptance.hpp"

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

std::optional<acceptance_times> acceptance_of(const contender& entry) {
  const std::optional<entry_lease> lease = parse_entry_value(entry.value).lease;
  return lease && lease->accepts ? acceptance_of(lease->ttl) : std::nullopt;
}

void open_grants::saw(context& ctx, const snapshot& now, const members& ours) {
  const auto is_open = [&](const contender& entry) {
    return is_provisional(entry.flags) && !entry.accepted && now.record.names(entry.session) &&
           !ours.is_ours(entry.session);
  };
  std::erase_if(grants_, [&](const auto& each) {
    const contender* const entry = now.find(each.first);
    return !entry || entry->modify_index != each.second.index || !is_open(*entry);
  });
  for (const contender& entry : now.contenders) {
    if (!is_provisional(entry.flags) || !is_open(entry) || grants_.contains(entry.session)) continue;
    const std::optional<acceptance_times> its = acceptance_of(entry);
    if (!its) continue;
    const duration later = ctx.random().between(its->slack, 2 * its->slack);
    grants_.emplace(entry.session, grant{entry.modify_index, ctx.now() + its->patience(), its->slack, later, false});
  }
}

void open_grants::granted(const std::vector<std::string>& sessions) {
  for (const std::string& session : sessions)
    if (const auto its = grants_.find(session); its != grants_.end()) its->second.is_by_us = true;
}

std::vector<const contender*> open_grants::overdue(moment& at, const snapshot& now, bool waits) const {
  std::vector<const contender*> result;
  for (const auto& [session, its] : grants_) {
    const time_point due_at = its.due_at(waits);
    const contender* const entry = due_at == never ? nullptr : now.find(session);
    if (entry && at.has_come(due_at)) result.push_back(entry);
  }
  return result;
}

bool open_grants::is_unseen(const std::vector<const contender*>& overdue, time_point listed_at) const {
  return std::any_of(overdue.begin(), overdue.end(), [&](const contender* each) {
    const auto its = grants_.find(each->session);
    return its != grants_.end() && listed_at < its->second.over_at;
  });
}

void doubtful_processes::saw(time_point now, const snapshot& seen) {
  if (doubts_.empty()) return;
  std::erase_if(doubts_, [now](const auto& each) { return each.second.until <= now; });
  for (const contender& entry : seen.contenders) {
    const auto its = doubts_.find(parse_entry_value(entry.value).description);
    if (its == doubts_.end()) continue;
    const bool has_accepted = entry.accepted && entry.modify_index > its->second.index;
    if (entry.create_index > its->second.index || has_accepted) doubts_.erase(its);
  }
}

std::vector<std::string> doubtful_processes::sessions(time_point now, const snapshot& seen,
                                                      const std::vector<const contender*>& taken_back) const {
  std::vector<std::string> result;
  if (doubts_.empty() && taken_back.empty()) return result;
  for (const contender& entry : seen.contenders) {
    if (!entry.grantable()) continue;
    const std::string_view description = parse_entry_value(entry.value).description;
    const auto its = doubts_.find(description);
    const bool is_doubted = its != doubts_.end() && now < its->second.until;
    const bool loses_now = std::any_of(taken_back.begin(), taken_back.end(), [&](const contender* each) {
      return parse_entry_value(each->value).description == description;
    });
    if (is_doubted || loses_now) result.push_back(entry.session);
  }
  return result;
}

}  // namespace holdfast::protocol

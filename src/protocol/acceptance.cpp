#include "protocol/acceptance.hpp"

#include "protocol/succession.hpp"

namespace holdfast::protocol {

std::optional<acceptance_times> acceptance_of(const contender& entry) {
  const std::optional<entry_lease> lease = words_in(entry.value).lease;
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
    grants_.emplace(entry.session, grant{entry.modify_index, ctx.now() + its->patience(), later, false});
  }
}

void open_grants::granted(const std::vector<std::string>& sessions) {
  for (const std::string& session : sessions)
    if (const auto its = grants_.find(session); its != grants_.end()) its->second.is_by_us = true;
}

std::vector<const contender*> open_grants::overdue(context& ctx, const snapshot& now, bool waits) const {
  std::vector<const contender*> result;
  for (const auto& [session, its] : grants_) {
    if (!its.is_by_us && !waits) continue;
    const contender* const entry = now.find(session);
    if (entry && ctx.due_or_wake(its.over_at + (its.is_by_us ? duration(0) : its.later))) result.push_back(entry);
  }
  return result;
}

bool open_grants::is_unseen(const std::vector<const contender*>& overdue, time_point listed_at) const {
  return std::any_of(overdue.begin(), overdue.end(), [&](const contender* each) {
    const auto its = grants_.find(each->session);
    return its != grants_.end() && listed_at < its->second.over_at;
  });
}

}  // namespace holdfast::protocol

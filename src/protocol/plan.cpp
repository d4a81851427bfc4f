#include "protocol/plan.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

namespace {

bool contains(const std::vector<std::string>& list, std::string_view session) {
  return std::find(list.begin(), list.end(), session) != list.end();
}

/// Since it joined the queue.
bool is_untouched(const contender& entry) {
  return entry.grantable() && grants_in(entry.flags) == 0 && entry.create_index == entry.modify_index;
}

}  // namespace

operation grant_to(const contender& entry, std::string key, const succession_view& after) {
  // Only if that is still where it stood: who has left and come back stands at the end.
  return {verb::cas, std::move(key), with_succession(description_in(entry.value), after), next_grant_flags(entry.flags),
          entry.modify_index};
}

grant_plan plan(const snapshot& now, const plan_rules& rules) {
  grant_plan result;
  result.record.form = now.record.form;
  result.record.limit = rules.limit;
  for (const std::string& holder : now.record.holders) {
    if (contains(rules.leaving, holder)) continue;
    if (!rules.complete || now.find(holder) || contains(rules.spared, holder))
      result.record.holders.push_back(holder);  // stays sorted
  }

  result.record.closed = now.record.closed;
  result.record.revoked = now.record.revoked;
  result.record.keep_marks_of_holders();

  const std::size_t live = result.record.holders.size();
  std::size_t free = live < rules.limit && !now.record.closed ? rules.limit - live : 0;
  free -= std::min(free, rules.withheld);
  const auto claims = [&](const contender& entry) {
    return is_waiting(now, entry) && !contains(rules.leaving, entry.session);
  };
  const auto certain = [&](const contender& entry) { return entry.create_index <= now.complete_to; };
  bool cut = false;
  auto entry = now.contenders.begin();
  for (; entry != now.contenders.end() && free != 0; ++entry) {
    if (!claims(*entry)) continue;
    if (!rules.complete && !certain(*entry)) break;
    if (entry->grantable()) {
      cut = result.granted.size() == rules.grants_max;
      if (cut) break;
      result.granted.push_back(&*entry);
      result.record.add(entry->session);
      --free;
    } else if (!contains(rules.passed_over, entry->session)) {
      result.left_free.push_back(&*entry);
      --free;
    }
  }
  if (cut) free = 0;  // what is left belongs to those who wait: the next write

  bool gap = cut || !result.left_free.empty();
  for (; entry != now.contenders.end(); ++entry) {
    if (!claims(*entry)) continue;
    gap = gap || !certain(*entry) || !is_untouched(*entry) || result.after.next.size() == succession_max;
    if (gap)
      ++result.after.behind;
    else
      result.after.next.push_back(&*entry);
  }
  result.after.behind += now.unseen;
  result.after.limit = rules.limit;
  result.free = static_cast<std::uint32_t>(free);
  return result;
}

}  // namespace holdfast::protocol

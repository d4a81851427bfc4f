// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/plan.hpp"

#include <algorithm>
#include <utility>

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace {

/// A sorted list of names, for many lookups.
class names {
public:
  explicit names(const std::vector<std::string>& all) : sorted_(all.begin(), all.end()) {
    std::sort(sorted_.begin(), sorted_.end());
  }
  bool contain(std::string_view session) const { return std::binary_search(sorted_.begin(), sorted_.end(), session); }

private:
  std::vector<std::string_view> sorted_;
};

/// Whether other processes may grant the entry, and it is as it was when it joined the queue.
bool is_untouched(const contender& entry) {
  return entry.grantable() && grants_in(entry.flags) == 0 && entry.create_index == entry.modify_index;
}

}  // namespace

std::size_t room_beside(const lock_record& record, std::string_view lock_key, std::size_t request_bytes) {
  constexpr std::size_t rest = 2048;  // for sessions that must end, a listing, and the request itself
  const std::size_t used = rest + bytes_of_operation(lock_key.size(), size_of(record, operations_max));
  return request_bytes - std::min(request_bytes, used);
}

std::size_t grants_that_fit(std::size_t room, std::string_view lock_key) {
  const std::size_t each = bytes_of_operation(lock_key.size() + 40, description_max + succession_bytes_max + 64);
  return std::max<std::size_t>(room / each, 1);
}

kv_operation grant_to(const contender& entry, std::string key, const succession_view& after, bool is_provisional) {
  // The grant applies only if the entry is unchanged. A contender that has left and come back stands at the end of the
  // queue.
  const std::string_view description = description_in(entry.value).substr(0, description_max);
  return kv_operation::cas(std::move(key), with_succession(description, after), entry.modify_index,
                           next_grant_flags(entry.flags, is_provisional));
}

grant_plan plan(const snapshot& now, const plan_rules& rules) {
  grant_plan result;
  result.record.form = now.record.form;
  result.record.limit = rules.limit;
  result.given_back = rules.given_back;
  result.taken_back = rules.taken_back;
  result.gone = rules.gone;
  const names leaving(rules.leaving), spared(rules.spared), passed_over(rules.passed_over), doubted(rules.doubted);
  const snapshot::matches matches = now.match();
  result.record.holders.reserve(now.record.holders.size());
  for (std::size_t i = 0; i != now.record.holders.size(); ++i) {
    const std::string& holder = now.record.holders[i];
    if (leaving.contain(holder)) continue;
    const auto is_its = [&](const contender* each) { return each->session == holder; };
    const auto loses_by = [&](const auto& list) { return std::any_of(list.begin(), list.end(), is_its); };
    if (loses_by(rules.given_back) || loses_by(rules.taken_back) || loses_by(rules.gone)) continue;
    if (!rules.complete || matches.present[i] || spared.contain(holder) || now.has_given_back(holder))
      result.record.holders.push_back(holder);  // stays sorted
  }

  result.record.closed = now.record.closed;
  result.record.revoked = now.record.revoked;
  result.record.keep_marks_of_holders();

  const std::size_t live = result.record.holders.size();
  std::size_t free = live < rules.limit && !now.record.closed ? rules.limit - live : 0;
  free -= std::min(free, rules.withheld);
  for (const contender* each : rules.living) {
    if (free == 0 || result.granted.size() == rules.grants_max) break;
    result.granted.push_back(each);
    result.record.add(each->session);
    --free;
  }
  const std::size_t out_of_turn = result.granted.size();
  const auto claims = [&](const contender& entry) {
    const auto place = static_cast<std::size_t>(&entry - &now.contenders.front());
    const auto end = result.granted.begin() + static_cast<std::ptrdiff_t>(out_of_turn);
    return !matches.named[place] && !leaving.contain(entry.session) &&
           std::find(result.granted.begin(), end, &entry) == end &&
           std::find(rules.gone.begin(), rules.gone.end(), &entry) == rules.gone.end();
  };
  const auto certain = [&](const contender& entry) { return entry.create_index <= now.complete_to; };
  const auto grants = [&](const contender& each) {
    result.cut = result.granted.size() == rules.grants_max;
    if (result.cut) return false;
    result.granted.push_back(&each);
    result.record.add(each.session);
    --free;
    return true;
  };
  auto entry = now.contenders.begin();
  for (; entry != now.contenders.end() && free != 0; ++entry) {
    if (!claims(*entry) || doubted.contain(entry->session)) continue;
    if (!rules.complete && !certain(*entry)) break;
    if (entry->grantable()) {
      if (!grants(*entry)) break;
    } else if (!passed_over.contain(entry->session)) {
      result.left_free.push_back(&*entry);
      --free;
    }
  }
  for (const contender& each : now.contenders) {
    if (rules.doubted.empty()) break;
    if (!claims(each) || !doubted.contain(each.session)) continue;
    const bool may_grant = rules.complete && free != 0 && !result.cut;
    if (!may_grant || !grants(each)) ++result.after.behind;
  }
  if (result.cut) free = 0;  // the next write grants the rest to waiting contenders

  bool gap = result.cut || !result.left_free.empty();
  for (; entry != now.contenders.end(); ++entry) {
    if (!claims(*entry) || doubted.contain(entry->session)) continue;
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

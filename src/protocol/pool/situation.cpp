// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/situation.hpp"

#include <algorithm>

namespace holdfast::protocol {

void situation::assess_contenders(const view& v, const members& ours, const claim_timeouts& slow,
                                  const pool_options& o) {
  const snapshot& now = v.now();
  // If the holder of a mutex has no entry, it counts as another kind of client. Such a client releases the mutex
  // without notifying us.
  const bool strange =
      o.form == record_form::session && !now.record.holders.empty() && !now.find(now.record.holders.front());
  if (v.current()) foreign_holder = strange;
  foreign = foreign_holder;
  contested = false;
  waiting = 0;
  const snapshot::matches matches = now.match();
  for (std::size_t i = 0; i != matches.named.size(); ++i) {
    const contender& entry = now.contenders[i];
    waiting += !matches.named[i];
    if (!matches.named[i] && !slow.passed_over(entry.session) && !ours.is_ours(entry.session)) contested = true;
    if (!entry.grantable()) foreign = true;
  }
}

/// If no living contender relies on the record, this process may write it anew with its own limit. Entries of ours that
/// only wait do not rely on it. Otherwise all processes must agree on the limit. A process with `use_recorded_limit`
/// takes any recorded limit up to `limit_max`.
void situation::assess_limit(const view& v, const members& ours, const pool_options& o) {
  const snapshot& now = v.now();
  if (v.knows_record()) over_limit = now.lock_index != 0 && now.record.holders.size() > now.record.limit;
  if (o.use_recorded_limit) {
    if (now.lock_index == 0 && !v.knows_record()) return;  // there is a record that was not seen
    limit_disagrees = now.lock_index != 0 && now.record.limit > limit_max;
    limit = now.lock_index == 0 || limit_disagrees ? o.limit : now.record.limit;
    return;
  }
  const bool in_use = std::any_of(now.contenders.begin(), now.contenders.end(), [&](const contender& entry) {
    return now.record.names(entry.session) || !ours.is_ours(entry.session);
  });
  limit_disagrees = now.lock_index != 0 && now.record.limit != o.limit && in_use;
}

std::uint32_t limit_of(const lock_record& record, const pool_options& o) {
  return o.use_recorded_limit && record.limit != 0 ? record.limit : o.limit;  // 0: there is no record
}

bool grants_us(const lock_record& record, const members& ours) {
  return std::any_of(ours.begin(), ours.end(),
                     [&](const auto& each) { return !each.second.holds() && record.names(each.second.session); });
}

}  // namespace holdfast::protocol

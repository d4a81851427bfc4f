// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/write_checks.hpp"

#include <algorithm>

namespace holdfast::test {

using namespace protocol;

std::size_t live_holders(const snapshot& seen) {
  const bool is_mutex = seen.record.form == record_form::session;
  return static_cast<std::size_t>(
      std::count_if(seen.record.holders.begin(), seen.record.holders.end(),
                    [&](const std::string& holder) { return is_mutex || seen.find(holder) != nullptr; }));
}

void check_write(referee& judge, const write_rules& rules, const snapshot& before, const snapshot& after) {
  const auto is_new = [&](const std::string& holder) { return !before.record.names(holder) && after.find(holder); };
  const bool grants = std::any_of(after.record.holders.begin(), after.record.holders.end(), is_new);
  const std::uint32_t limit = rules.recorded_limit && after.lock_index != 0 ? after.record.limit : rules.limit;
  if (live_holders(after) > limit && (grants || !rules.recorded_limit))
    judge.object(guarantee::record, "the record names more than the limit");
  if (grants && after.record.closed) judge.object(guarantee::orders, "somebody is granted though it is closed");
  if (rules.writer.empty() || before.lock_index == 0 || !rules.recorded_limit) return;
  if (after.record.closed != before.record.closed)
    judge.object(guarantee::orders, rules.writer + " opens or closes it");
  if (after.record.limit != before.record.limit) judge.object(guarantee::orders, rules.writer + " changes the limit");
  for (const std::string& wanted : before.record.revoked) {
    const contender *was = before.find(wanted), *is = after.find(wanted);
    const bool holds_on =
        was && is && was->create_index == is->create_index && before.record.names(wanted) && after.record.names(wanted);
    if (holds_on && !after.record.revokes(wanted)) judge.object(guarantee::orders, rules.writer + " drops a mark");
  }
}

}  // namespace holdfast::test

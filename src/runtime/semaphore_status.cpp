// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/semaphore_status.hpp"

#include <algorithm>

#include "protocol/record/entry_value.hpp"

namespace holdfast::runtime {

namespace {

contender_kind kind_of(const protocol::contender& entry) {
  if (entry.grantable()) return contender_kind::holdfast;
  return entry.flags == protocol::semaphore_flags ? contender_kind::go_client : contender_kind::guide;
}

contender_status to_status(const protocol::contender& entry, std::chrono::seconds now_since_1970) {
  contender_status result;
  result.session = entry.session;
  result.kind = kind_of(entry);
  if (!entry.grantable()) {  // entries of other clients have no format of ours
    result.description = entry.value;
    return result;
  }
  const protocol::entry_value details = protocol::parse_entry_value(entry.value);
  result.description = details.description;
  // Clocks disagree, so the difference may be negative.
  if (details.since_1970) result.age = std::max(now_since_1970 - *details.since_1970, std::chrono::seconds(0));
  return result;
}

}  // namespace

semaphore_status to_status(const protocol::inspection& seen, std::chrono::seconds now_since_1970) {
  const protocol::snapshot& now = seen.now;
  const protocol::leftovers_count left = protocol::count_leftovers(seen);
  semaphore_status result;
  result.exists = now.lock_index != 0;
  result.limit = now.record.limit;
  result.closed = now.record.closed;
  result.dead_holders = left.holders;
  result.given_back = now.given_back.size();
  result.dead_entries = left.entries;
  result.index = now.lock_index;
  for (const protocol::contender& entry : now.contenders) {
    contender_status each = to_status(entry, now_since_1970);
    if (now.record.names(entry.session)) {
      if (entry.grantable()) each.token.grant = entry.modify_index;  // the last write to the entry was the grant
      each.revoked = now.record.revokes(entry.session);
      each.provisional = protocol::is_provisional(entry.flags) && !entry.accepted;
      if (const protocol::slot_number* const its = now.number_of(entry.session)) each.number = its->number;
      result.holders.push_back(std::move(each));
    } else {
      each.place = result.queue.size() + 1;
      result.queue.push_back(std::move(each));
    }
  }
  return result;
}

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/administration/administration.hpp"

#include <algorithm>
#include <utility>

#include "protocol/pool/acceptance.hpp"
#include "protocol/pool/plan.hpp"

namespace holdfast::protocol {

namespace {

/// True if the text is a session id in Consul's form: 8-4-4-4-12 lower-case hexadecimal digits.
bool is_session_id(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const char c = text[i];
    const bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !digit) return false;
  }
  return true;
}

bool is_contenders(std::uint64_t flags) { return flags == 0 || flags == semaphore_flags || is_grantable(flags); }

instruction refuse(error why) {
  instruction result;
  result.refused = make_error_code(why);
  return result;
}

std::string entry_key(const inspection& s, std::string_view session) { return s.prefix + std::string(session); }

/// Holders without an entry, except those that have released their slot without writing the record.
std::vector<std::string> dead_holders(const snapshot& now) {
  std::vector<std::string> dead;
  for (const std::string& holder : now.record.holders)
    if (!now.find(holder) && !now.has_given_back(holder)) dead.push_back(holder);
  return dead;
}

kv_operation remove(const inspection& s, const contender& entry) {
  return kv_operation::remove_cas(entry_key(s, entry.session), entry.modify_index);
}

/// Changes the record to `wanted`, and grants the slots that are free then, as far as one write can. Returns an empty
/// instruction if there is nothing to write. Dead holders are removed, except those in `spared`. Sessions that have
/// released their slots without writing the record are removed with their entries, up to `given_back_max` of them.
instruction write(const inspection& s, lock_record wanted, std::vector<std::string> spared,
                  std::size_t grants_max = operations_max - 2, std::size_t given_back_max = given_back_at_once) {
  snapshot then = s.now;
  then.record = std::move(wanted);
  plan_rules rules;
  rules.limit = then.record.limit;
  rules.spared = std::move(spared);
  for (const contender& each : then.given_back)
    if (rules.given_back.size() < given_back_max) rules.given_back.push_back(&each);
  rules.grants_max = std::min(grants_max - rules.given_back.size(),
                              grants_that_fit(room_beside(then.record, s.lock_key, s.request_bytes), s.lock_key));
  const grant_plan next = plan(then, rules);
  instruction result;
  if (next.record == s.now.record && next.given_back.empty()) return result;
  result.operations.push_back(kv_operation::cas(s.lock_key, format(next.record), s.now.lock_index, s.now.lock_flags));
  for (const contender* entry : next.granted)
    result.operations.push_back(
        grant_to(*entry, entry_key(s, entry->session), next.after, acceptance_of(*entry).has_value()));
  for (const contender* entry : next.given_back) result.operations.push_back(remove(s, *entry));
  result.more = next.cut;
  result.reads = true;
  return result;
}

instruction write(const inspection& s, lock_record wanted) { return write(s, std::move(wanted), dead_holders(s.now)); }

/// A contender that joins between a read and the write that relies on it sees a full record, and waits. So a write that
/// may free a slot reads everything in the same transaction. The next write then grants that contender.
instruction with_read(const inspection& s, instruction next) {
  if (next.reads) next.operations.push_back(kv_operation::get_tree(s.prefix));
  return next;
}

const contender* find(const std::vector<contender>& list, std::string_view session) {
  const auto at =
      std::find_if(list.begin(), list.end(), [&](const contender& each) { return each.session == session; });
  return at == list.end() ? nullptr : &*at;
}

}  // namespace

boost::system::result<inspection> make_inspection(std::string prefix, std::string lock_key,
                                                  std::vector<kv_entry> listing, std::uint64_t index) {
  inspection result;
  for (const kv_entry& pair : listing) {
    if (pair.key == lock_key) result.lock_created = pair.create_index;
    if (!pair.session.empty() || !pair.key.starts_with(prefix) || pair.key == lock_key) continue;
    const std::string_view name = std::string_view(pair.key).substr(prefix.size());
    if (!is_session_id(name) || !is_contenders(pair.flags)) continue;
    result.leftovers.push_back({std::string(name), pair.value, pair.flags, pair.create_index, pair.modify_index});
  }
  auto now = make_snapshot(prefix, lock_key, std::move(listing), index);
  if (!now) return now.error();
  result.now = *std::move(now);
  result.prefix = std::move(prefix);
  result.lock_key = std::move(lock_key);
  return result;
}

instruction create(const inspection& s, std::uint32_t limit) {
  if (limit == 0 || limit > limit_max) return refuse(error::invalid_limit);
  if (s.now.lock_index != 0) return s.now.record.limit == limit ? instruction() : refuse(error::limit_conflict);
  lock_record record;
  record.limit = limit;
  return with_read(s, write(s, std::move(record)));
}

instruction resize(const inspection& s, std::uint32_t limit) {
  if (limit == 0 || limit > limit_max) return refuse(error::invalid_limit);
  if (s.now.lock_index == 0) return refuse(error::no_semaphore);
  lock_record record = s.now.record;
  record.limit = limit;
  return with_read(s, write(s, std::move(record)));
}

instruction set_closed(const inspection& s, bool closed) {
  if (s.now.lock_index == 0) return refuse(error::no_semaphore);
  lock_record record = s.now.record;
  record.closed = closed;
  return with_read(s, write(s, std::move(record)));
}

instruction revoke(const inspection& s, std::string_view session, bool first_read) {
  if (!s.now.holds(session)) {
    if (!first_read) return {};
    return refuse(s.now.lock_index == 0 ? error::no_semaphore : error::not_held);
  }
  if (s.now.record.revokes(session)) return {};
  lock_record record = s.now.record;
  record.revoke(std::string(session));
  if (room_beside(record, s.lock_key, s.request_bytes) == 0) return refuse(error::too_large);
  instruction result = write(s, std::move(record), dead_holders(s.now), operations_max - 2, 0);
  result.reads = false;  // it frees nothing
  return result;
}

instruction evict(const inspection& s, std::string_view session, bool first_read) {
  instruction result;
  if (s.now.find(session)) {
    result.session = session;
    return result;
  }
  const contender* const left = find(s.leftovers, session);
  if (s.now.record.names(session)) {
    std::vector<std::string> spared = dead_holders(s.now);
    std::erase(spared, session);
    result = write(s, s.now.record, std::move(spared), left ? operations_max - 3 : operations_max - 2);
  } else if (!left && first_read) {
    return refuse(error::not_held);
  } else if (s.now.lock_index != 0) {  // grant contenders that have joined since the last read
    result = write(s, s.now.record, dead_holders(s.now), left ? operations_max - 3 : operations_max - 2);
  }
  if (left) result.operations.push_back(remove(s, *left));
  return with_read(s, std::move(result));
}

instruction sweep(const inspection& s) {
  instruction result;
  if (s.now.lock_index != 0) result = write(s, s.now.record, {});
  if (!result.operations.empty()) result.swept.holders = dead_holders(s.now).size();
  for (const contender& left : s.leftovers) {
    if (result.operations.size() == operations_max - 1) {
      result.more = true;
      break;
    }
    result.operations.push_back(remove(s, left));
    ++result.swept.entries;
  }
  return with_read(s, std::move(result));
}

instruction destroy(const inspection& s, bool even_in_use, std::uint64_t first) {
  const bool is_gone = first != 0 && (s.lock_created == 0 || s.lock_created > first);
  const bool is_numbered = std::any_of(s.now.numbers.begin(), s.now.numbers.end(),
                                       [](const slot_number& each) { return !each.session.empty(); });
  if (!even_in_use && !is_gone && (!s.now.contenders.empty() || is_numbered)) return refuse(error::in_use);
  const auto is_later = [&](std::uint64_t modify_index) { return is_gone && modify_index > first; };
  instruction result;
  std::vector<kv_operation>& all = result.operations;
  if (s.now.lock_index != 0 && !is_gone) all.push_back(kv_operation::remove_cas(s.lock_key, s.now.lock_index));
  const auto remove_all = [&](const auto& list) {
    for (const contender& each : list) {
      if (is_later(each.modify_index)) continue;
      all.push_back(remove(s, each));
      if (each.accepted) all.push_back(kv_operation::remove(acceptance_of_entry(entry_key(s, each.session))));
    }
  };
  remove_all(s.now.contenders);
  remove_all(s.now.given_back);
  remove_all(s.leftovers);
  const std::string numbers = numbers_of(s.prefix);
  for (const slot_number& each : s.now.numbers)
    if (!is_later(each.modify_index))
      all.push_back(kv_operation::remove_cas(numbers + std::to_string(each.number), each.modify_index));
  result.more = all.size() > operations_max;
  if (result.more) all.resize(operations_max);
  return result;
}

instruction drain(const inspection& s, bool first_read) {
  if (s.now.lock_index == 0 && first_read) return refuse(error::no_semaphore);
  instruction result;
  const std::vector<std::string>& holders = s.now.record.holders;
  result.more =
      std::any_of(holders.begin(), holders.end(), [&](const std::string& holder) { return s.now.find(holder); });
  return result;
}

leftovers_count count_leftovers(const inspection& s) { return {dead_holders(s.now).size(), s.leftovers.size()}; }

}  // namespace holdfast::protocol

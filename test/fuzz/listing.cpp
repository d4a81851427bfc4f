// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// From a listing below a prefix to the next write of the lock key, which is the heart of the protocol.
//
// The input begins with a byte. If it is even, the rest is the body of a reply to a listing. If it is odd, the rest
// makes entries that are similar enough to those of a semaphore for all rules of the plan to matter.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "consul/encoding/json.hpp"
#include "fuzz.hpp"
#include "protocol/administration/administration.hpp"
#include "protocol/pool/plan.hpp"
#include "protocol/record/snapshot.hpp"
#include "support/decode.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using holdfast::fuzz::require;
using names = std::vector<std::string>;

namespace {

constexpr const char* prefix = "p/";
constexpr const char* lock_key = "p/.lock";
constexpr std::array<const char*, 8> sessions{"s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"};

bool contains(const names& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// One session for each bit.
names some_sessions(std::uint8_t bits) {
  names out;
  for (std::size_t i = 0; i < sessions.size(); ++i)
    if (bits >> i & 1) out.emplace_back(sessions[i]);
  return out;
}

std::uint64_t take_flags(fuzz::input& in) {
  const std::uint8_t which = in.byte();
  constexpr std::array<std::uint64_t, 6> other{0,
                                               semaphore_flags,
                                               ~std::uint64_t{0},
                                               1,
                                               contender_magic | given_back_flag,
                                               contender_magic | given_back_flag | 3};
  return which < 128 ? contender_magic | which : other[which % other.size()];
}

kv_entry take_lock(fuzz::input& in) {
  lock_record record;
  const std::uint8_t kind = in.byte();
  record.form = kind % 2 ? record_form::list : record_form::map;
  record.closed = kind >= 192;
  record.limit = 1 + in.byte();
  record.holders = some_sessions(in.byte());
  if (kind % 4 == 2) record.revoked = some_sessions(in.byte());
  kv_entry pair{lock_key, format(record), 0, {}};
  pair.flags = in.byte() < 250 ? semaphore_flags : 1;
  pair.modify_index = in.byte();
  return pair;
}

// An entry of a session, and seldom anything else.
kv_entry take_entry(fuzz::input& in) {
  const std::uint8_t which = in.byte();
  const std::string session = sessions[which % sessions.size()];
  kv_entry pair{prefix + session, {}, take_flags(in), session};
  pair.create_index = in.byte();
  pair.modify_index = pair.create_index + in.byte();
  if (which >= 240) pair.session.clear();
  if (which >= 248) pair.key = std::string(in.text(4));
  return pair;
}

std::vector<kv_entry> take_listing(fuzz::input& in) {
  std::vector<kv_entry> out;
  out.push_back(take_lock(in));
  while (!in.empty() && out.size() < 32) out.push_back(take_entry(in));
  return out;
}

std::vector<kv_entry> parse_listing(std::string_view body) {
  std::vector<consul::kv_entry> entries;
  if (consul::detail::parse_entries(body, entries)) return {};
  std::vector<kv_entry> out;
  for (auto& entry : entries)
    out.push_back({entry.key, entry.value, entry.flags, entry.session, entry.create_index, entry.modify_index});
  return out;
}

// Consul lists each key once. A listing with the same key twice must do no harm, but need not make sense.
bool names_a_key_twice(std::vector<kv_entry> listing) {
  const auto by_key = [](const kv_entry& a, const kv_entry& b) { return a.key < b.key; };
  const auto same_key = [](const kv_entry& a, const kv_entry& b) { return a.key == b.key; };
  std::sort(listing.begin(), listing.end(), by_key);
  return std::adjacent_find(listing.begin(), listing.end(), same_key) != listing.end();
}

names names_of(const std::vector<const contender*>& list) {
  names out;
  for (const contender* entry : list) out.push_back(entry->session);
  return out;
}

// Checks what must be true of any plan, even one for a listing that makes no sense.
void check_bounds(const snapshot& now, const plan_rules& rules, const grant_plan& next) {
  const names& holders = next.record.holders;
  require(std::is_sorted(holders.begin(), holders.end()), "planned holders are sorted");
  require(std::adjacent_find(holders.begin(), holders.end()) == holders.end(), "each is named once");
  require(next.record.limit == rules.limit && next.record.form == now.record.form, "limit and form are as asked");
  require(next.granted.size() <= rules.grants_max, "a write grants no more than it may");
  std::size_t kept = 0;
  for (const std::string& holder : holders) {
    require(!contains(rules.leaving, holder), "who leaves holds nothing");
    const bool is_new = !now.record.names(holder);
    require(is_new == contains(names_of(next.granted), holder), "a new holder is one that was granted");
    if (!is_new)
      require(now.find(holder) || now.has_given_back(holder) || contains(rules.spared, holder),
              "a kept holder lives, is spared, or has given its slot back and is still in the record");
    kept += is_new ? 0 : 1;
  }
  require(holders.size() <= std::max<std::size_t>(rules.limit, kept), "never more holders than the limit");
  if (!next.granted.empty())
    require(holders.size() + next.left_free.size() + next.free <= rules.limit, "and no slot is promised twice");
  require(next.record.closed == now.record.closed, "a plan neither opens nor closes");
  if (now.record.closed)
    require(next.granted.empty() && next.left_free.empty() && next.free == 0, "closed leaves nothing to have");
  for (const std::string& wanted : next.record.revoked)
    require(now.record.revokes(wanted) && next.record.names(wanted), "a mark is an old one, of a holder");
  for (const std::string& wanted : now.record.revoked)
    require(next.record.revokes(wanted) == next.record.names(wanted) || !now.record.names(wanted),
            "and stays as long as that");
}

// A command of an operator becomes one transaction that fits. When the command is done, it asks for no more.
void check_orders(const inspection& s, const plan_rules& rules) {
  const std::string who = sessions[rules.limit % sessions.size()];
  for (const instruction& next :
       {create(s, rules.limit), resize(s, rules.limit), set_closed(s, true), set_closed(s, false), revoke(s, who, true),
        evict(s, who, true), evict(s, who, false), sweep(s), destroy(s, true), destroy(s, false)}) {
    require(next.operations.size() <= operations_max, "an order fits a transaction");
    require(!next.refused || (next.operations.empty() && next.session.empty()), "what is refused is not done");
    const bool writes = std::any_of(next.operations.begin(), next.operations.end(),
                                    [](const kv_operation& op) { return op.verb != kv_verb::get_tree; });
    require(writes || next.operations.empty(), "an order that reads also writes");
    for (const kv_operation& op : next.operations) {
      if (next.reads && &op == &next.operations.back()) {
        require(op.verb == kv_verb::get_tree && op.key == prefix, "the read is of the whole prefix, after the writes");
        continue;
      }
      require(op.verb == kv_verb::cas || op.verb == kv_verb::remove_cas, "each write is guarded by an index");
      if (op.key != lock_key || op.verb != kv_verb::cas) continue;
      require(op.index == s.now.lock_index, "that of the record which was seen");
      require(parse_lock_record(op.value).has_value(), "what is written can be read");
    }
  }
}

void check_rules(const snapshot& now, const plan_rules& rules, const grant_plan& next) {
  std::size_t kept = 0;
  for (const std::string& holder : now.record.holders) {
    const bool leaves = contains(rules.leaving, holder) || contains(names_of(rules.given_back), holder);
    const bool lives = now.find(holder) || now.has_given_back(holder) || contains(rules.spared, holder);
    const bool stays = lives && !leaves;
    require(stays == next.record.names(holder), "who lives and stays keeps what it holds");
    kept += stays ? 1 : 0;
  }
  const bool stopped = next.granted.size() == rules.grants_max;
  const std::size_t slots = rules.limit > kept && !now.record.closed ? rules.limit - kept : 0;
  const std::size_t used = next.granted.size() + next.left_free.size() + next.free;
  require(stopped ? used <= slots : used == slots, "each slot is held, granted, left free, or free");

  // The queue: a contender that waits and got nothing stands behind all that got something.
  bool over = false;
  const names granted = names_of(next.granted);
  const names left_free = names_of(next.left_free);
  for (const contender* entry : rules.given_back)
    require(!next.record.names(entry->session), "the write removes a contender that has given its slot back");
  for (const contender& entry : now.given_back)
    require(!contains(granted, entry.session) && !contains(left_free, entry.session),
            "a contender that has given its slot back is not granted another");
  for (const contender& entry : now.contenders) {
    const bool served = contains(granted, entry.session) || contains(left_free, entry.session);
    require(!served || !over, "nobody jumps the queue");
    if (served) require(!now.record.names(entry.session), "a holder is not granted again");
    if (contains(granted, entry.session)) require(entry.grantable(), "only who looks for itself is granted");
    const bool passed = !entry.grantable() && contains(rules.passed_over, entry.session);
    const bool waits = is_waiting(now, entry) && !contains(rules.leaving, entry.session) && !passed;
    if (waits && !served) over = true;
  }
  if (over) require(next.free == 0, "no slot stays free while somebody waits for it");

  // After the write, the same plan has nothing to add.
  snapshot after = now;
  after.record = next.record;
  for (const std::string& session : rules.leaving) after.contenders.erase(session);
  const grant_plan again = plan(after, rules);
  require(stopped || again.granted.empty(), "a plan that was carried out grants nobody else");
  if (again.granted.empty()) require(again.record == next.record, "and leaves the record alone");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const std::uint8_t kind = in.byte();
  const bool is_body = kind % 2 == 0;
  const bool takes_back = kind >= 128;
  plan_rules rules;
  rules.limit = 1 + in.byte() % 16;
  rules.leaving = some_sessions(in.byte());
  rules.spared = some_sessions(in.byte());
  rules.passed_over = some_sessions(in.byte());
  if (const std::uint8_t grants_max = in.byte()) rules.grants_max = grants_max;
  std::vector<kv_entry> listing = is_body ? parse_listing(in.rest()) : take_listing(in);

  const auto now = make_snapshot(prefix, lock_key, listing, 1);
  if (!now) return 0;
  require(now->contenders.size() + (now->lock_index != 0 ? 1 : 0) <= listing.size(), "nothing comes of nothing");
  if (takes_back)
    for (const contender& entry : now->given_back) rules.given_back.push_back(&entry);
  const grant_plan next = plan(*now, rules);
  require(plan(*now, rules).record == next.record, "the same questions, the same answers");
  check_bounds(*now, rules, next);
  check_orders(make_inspection(prefix, lock_key, listing, 1).value(), rules);
  if (names_a_key_twice(listing)) return 0;

  check_rules(*now, rules, next);
  std::reverse(listing.begin(), listing.end());
  require(make_snapshot(prefix, lock_key, listing, 1).value() == *now, "the order of a listing does not matter");
  return 0;
}

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/compose.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "protocol/pool/acceptance.hpp"
#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace {

class composer {
public:
  composer(const facts& f, const moves& what, request_id id) : f_(f), what_(what) {
    txn_.id = id;
    txn_.sent_at = f.time;
    txn_.base = f.now().lock_index;
    txn_.entry_flags = f.entry_flags();
  }

  transaction make(grant_plan& next, bool writes_record) && {
    txn_.guarded = writes_record;
    if (writes_record)
      write_record(next);
    else if (!what_.join.empty())
      choose_reads();
    for (const member* m : what_.give_back) move(*m, true, false);
    for (const member* m : what_.leave) {  // only if nobody has granted it meanwhile
      move(*m, true, false);
      kv_operation& last = txn_.operations.back();
      last = kv_operation::remove_cas(last.key, f_.now().find(m->session)->modify_index);
    }
    for (const member* m : what_.requeue) move(*m, true, true);
    for (const member* m : what_.join) move(*m, false, true);
    for (std::size_t i = 0; i != what_.number.size(); ++i) take_number(*what_.number[i], what_.numbers[i]);
    // `get` reads a mutex's record, because `get_tree` would also read the entries below its key. If the key does not
    // exist, `get` refuses the transaction.
    const kv_verb one = f_.parts.options.form == record_form::session ? kv_verb::get : kv_verb::get_tree;
    if (txn_.reads == transaction::read_scope::record) add({one, f_.parts.keys.lock});
    if (txn_.reads == transaction::read_scope::everything) add(kv_operation::get_tree(f_.parts.keys.prefix));
    return std::move(txn_);
  }

private:
  void add(kv_operation op) { txn_.operations.push_back(std::move(op)); }

  void write_record(grant_plan& next) {
    const snapshot& now = f_.now();
    const contender* woken = nullptr;
    if (what_.gives() && f_.must_yield()) {
      if (!next.granted.empty()) woken = next.granted.front();
      if (woken) next.record.drop(woken->session);
      next.granted.clear();
    }
    txn_.record = next.record;
    txn_.keeps_record = now.lock_index != 0 && next.record == now.record;
    txn_.operations =
        rewrite(f_.parts.keys.lock, now, next.record, f_.parts.options.description, f_.parts.mutex.value());
    txn_.record_operations = txn_.operations.size();
    grant(next);
    for (const auto& [session, its] : f_.parts.members.ending()) {
      const bool has_entry = now.holds(session) || now.has_given_back(session);
      if (!has_entry || txn_.record.names(session)) continue;
      add(kv_operation::remove(f_.parts.keys.entry(session)));
      txn_.removed.push_back(session);
    }
    for (const contender* each : next.given_back) {
      add(kv_operation::remove_cas(f_.parts.keys.entry(each->session), each->modify_index));
      txn_.removed.push_back(each->session);
    }
    for (const contender* each : next.taken_back) {
      add(kv_operation::check_not_exists(f_.parts.keys.acceptance(each->session)));
      // `remove_cas` alone does not suffice, because Consul also applies it to a missing entry. The entry's session may
      // have ended with its node.
      add(kv_operation::check_index(f_.parts.keys.entry(each->session), each->modify_index));
      add(kv_operation::remove(f_.parts.keys.entry(each->session)));
      txn_.removed.push_back(each->session);
      txn_.taken_from.emplace_back(parse_entry_value(each->value).description);
      const slot_number* const its = f_.parts.options.numbered ? now.number_of(each->session) : nullptr;
      if (its) hand_on_number(each->session, its->number);
    }
    // The record's index guards these removals. Nobody else can have granted such a contender in the meantime.
    for (const contender* each : next.gone) {
      add(kv_operation::remove(f_.parts.keys.entry(each->session)));
      add(kv_operation::remove(f_.parts.keys.acceptance(each->session)));
      txn_.removed.push_back(each->session);
      if (now.record.names(each->session)) ++txn_.freed;
      const slot_number* const its = f_.parts.options.numbered ? now.number_of(each->session) : nullptr;
      if (its) hand_on_number(each->session, its->number);
    }
    if (woken) {  // any change of its entry wakes its process
      txn_.woken = woken->session;
      add(kv_operation::cas(f_.parts.keys.entry(woken->session), touched(woken->value), woken->modify_index,
                            woken->flags));
    }
    const std::size_t limit = next.record.limit;
    const bool reads = next.reads_entries || now.record.holders.size() >= limit;
    txn_.frees = !woken && reads && next.record.holders.size() < limit;
    txn_.owes = txn_.frees || (!woken && next.cut);
    if (txn_.frees) txn_.reads = transaction::read_scope::everything;
  }

  /// Adds the grants. A contender that wants a number gets one of those that this write releases, while there are any.
  /// The others are granted without a number.
  void grant(grant_plan& next) {
    std::vector<std::uint32_t> free = numbers_left(f_, what_, next);
    for (const contender* entry : next.granted) {
      txn_.granted.push_back(entry->session);
      next.after.number.reset();
      if (is_numbered(entry->flags) && !free.empty()) {
        next.after.number = free.back();
        heirs_[free.back()] = entry;
        free.pop_back();
      }
      const bool is_provisional = !f_.parts.members.is_ours(entry->session) && acceptance_of(*entry).has_value();
      if (is_provisional) txn_.provisional.push_back(entry->session);
      add(grant_to(*entry, f_.parts.keys.entry(entry->session), next.after, is_provisional));
    }
  }

  /// A join reads only the record if the view is usable and the queue is long, unless it needs more. Such a join does
  /// not see which contenders have died. So from time to time a join reads everything, even if acquires never wait for
  /// long.
  void choose_reads() {
    const view& v = f_.parts.view;
    const bool known = v.state() != view::state::none && v.state() != view::state::stale;
    const bool many = f_.queue() > f_.parts.options.watch_all_max;
    const bool lately = f_.time < v.listed_at() + f_.own_watch(false);
    const bool exists = v.now().lock_index != 0;
    txn_.reads = known && exists && lately && many && !f_.parts.situation.foreign && !f_.parts.is_wide()
                     ? transaction::read_scope::record
                     : transaction::read_scope::everything;
  }

  void move(const member& m, bool out, bool in) {
    txn_.movers.push_back(m.id);
    const bool keeps_number = m.lost && m.slot != slot_id::none;  // until its user releases the slot
    if (const slot_number* const its = keeps_number ? nullptr : f_.number_of(m)) hand_on_number(m.session, its->number);
    if (out && m.acceptance.was_sent()) add(kv_operation::remove(f_.parts.keys.acceptance(m.session)));
    const std::string key = f_.parts.keys.entry(m.session);
    if (out) txn_.removed.push_back(m.session), add(kv_operation::remove(key));
    if (!in) return;
    const std::string text = f_.entry_text();
    txn_.inserted.emplace_back(m.session, text);
    add(kv_operation::lock(key, text, m.session, txn_.entry_flags));
  }

  void hand_on_number(const std::string& session, std::uint32_t number) {
    const std::string key = f_.parts.keys.number(number);
    add(kv_operation::unlock(key, f_.parts.options.description, session, mutex_flags));
    const auto heir = heirs_.find(number);
    if (heir == heirs_.end()) return txn_.numbers.push_back({number, {}, 0});
    const contender& its = *heir->second;
    txn_.numbers.push_back({number, its.session, 0});
    add(kv_operation::lock(key, std::string(parse_entry_value(its.value).description), its.session, mutex_flags));
  }

  void take_number(const member& m, std::uint32_t number) {
    if (!txn_.moves(m.id)) move(m, false, false);
    txn_.numbers.push_back({number, m.session, 0});
    add(kv_operation::lock(f_.parts.keys.number(number), f_.parts.options.description, m.session, mutex_flags));
  }

  const facts& f_;
  const moves& what_;
  transaction txn_{};
  std::map<std::uint32_t, const contender*> heirs_{};  ///< the contenders that get the numbers that this write releases
};

}  // namespace

transaction compose_return(const facts& f, const std::vector<const member*>& who, bool wakes, request_id id) {
  const snapshot& now = f.now();
  transaction txn;
  txn.id = id;
  txn.sent_at = f.time;
  txn.base = now.lock_index;
  for (const member* m : who) {
    const contender& entry = *now.find(m->session);
    txn.returned.push_back(m->session);
    txn.operations.push_back(
        kv_operation::cas(f.parts.keys.entry(m->session), entry.value, m->grant, entry.flags | given_back_flag));
    if (m->acceptance.was_sent()) txn.operations.push_back(kv_operation::remove(f.parts.keys.acceptance(m->session)));
    const slot_number* const its = f.number_of(*m);
    if (!its) continue;
    txn.operations.push_back(
        kv_operation::unlock(f.parts.keys.number(its->number), f.parts.options.description, m->session, mutex_flags));
    txn.numbers.push_back({its->number, {}, 0});
  }
  if (!wakes) return txn;
  const auto first = std::find_if(now.contenders.begin(), now.contenders.end(), [&](const contender& each) {
    return is_waiting(now, each) && each.grantable() && !f.parts.members.is_ours(each.session);
  });
  if (first == now.contenders.end()) return txn;
  txn.woken = first->session;
  txn.operations.push_back(
      kv_operation::cas(f.parts.keys.entry(first->session), touched(first->value), first->modify_index, first->flags));
  return txn;
}

transaction compose(const facts& f, const moves& what, grant_plan next, bool writes_record, request_id id) {
  return composer(f, what, id).make(next, writes_record);
}

}  // namespace holdfast::protocol

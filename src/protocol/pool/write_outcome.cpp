// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/write_outcome.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "protocol/pool/compose.hpp"
#include "protocol/pool/session_care.hpp"

namespace holdfast::protocol {

namespace {

/// One write returns at most this many slots without writing the record. Each slot takes up to three operations, and
/// one more operation wakes a waiter.
constexpr std::size_t returns_max = 20;

bool is_conflict(const event::refused_operation& each) { return each.reason == event::refusal::conflict; }

bool is_inserted(const transaction& txn, const std::string& session) {
  return std::any_of(txn.inserted.begin(), txn.inserted.end(), [&](const auto& each) { return each.first == session; });
}

}  // namespace

void write_outcome::applied(transaction txn, std::vector<kv_entry> results) {
  transaction::reply its = txn.applied(std::move(results));
  writer_.applied(txn);
  parts_.read_back.applied(txn, its, ctx_.last_request());
  if (txn.freed != 0) ctx_.measure(slots_freed{txn.freed});
  if (!txn.returned.empty()) return slots_returned(std::move(txn), its.index);
  if (txn.record_operations != 0) {
    parts_.duty.now_owes(txn.owes);
    parts_.duty.applied();
  }
  taking_.applied(ctx_, txn, its.index, parts_.options.ttl);
  if (txn.is_granted_since(parts_.view.now(), its.index)) {  // only the entry has the index of that grant
    parts_.view.mark_stale();
    return parts_.write.doubt(ctx_, std::move(txn));
  }
  for (const std::string& session : txn.removed)
    if (member* const m = parts_.members.find(session)) m->was_removed(its.index, is_inserted(txn, session));
  // If this write has removed a member's entry, the record does not name that member any more, so it may be used again.
  for (const member_id id : txn.movers)
    if (member& m = parts_.members[id];
        std::find(txn.removed.begin(), txn.removed.end(), m.session) != txn.removed.end())
      m.has_returned = false;
  for (const auto& [session, text] : txn.inserted)
    if (member* const m = parts_.members.find(session); m && !txn.record.names(session)) m->had_no_grant(txn.sent_at);
  observer_.end_moves(txn, true);
  if (its.has_read) {
    auto seen = parts_.snapshot_of(std::move(its.read), its.index);
    if (!seen)
      for (const member_id id : txn.movers)
        // Their entries may stand in the queue, so `refuse_listing` drops them with the others.
        parts_.members[id].standing.go_to(standing::waiting);
    if (seen && txn.reads == transaction::read_scope::record) return saw_own_join(txn, *std::move(seen));
    if (seen && may_be_filtered(*seen)) {
      saw_own_join(txn, *std::move(seen));
      parts_.view.mark_stale();
    } else {
      observer_.take_listing(std::move(seen), txn.id, txn.sent_at);
    }
    return taking_.granted(txn);
  }
  const bool is_news = parts_.view.now().index < its.index;  // false if a listing has already shown this write
  // While the write was pending, a listing has shown an older record than the one that Consul has now replaced. So the
  // listing may not show the entries of others, either.
  const bool is_misled = txn.guarded && parts_.view.now().lock_index < txn.base;
  parts_.view.wrote(its.index, txn.id, ctx_.last_request(), txn.guarded,
                    [&](snapshot& now) { txn.patch(now, its.index, its.record_index); });
  if (is_misled) parts_.view.mark_stale();
  taking_.granted(ctx_, txn, parts_);
  // Other contenders may stand before the sessions that this write puts into the queue.
  for (const auto& [session, text] : txn.inserted)
    if (is_news && !parts_.view.now().record.names(session)) parts_.view.mark_partial();
  parts_.duty.moved_on();
  observer_.refresh();
  parts_.assess_limit();
}

/// Whether a listing that came with a write of ours may lack entries that the token may not read. Consul reports this
/// for a plain listing, but not for a listing in a transaction. If the record names other holders, and the listing
/// shows no entry of any of them, either all of them have died, or their entries are hidden. Then a plain listing must
/// decide. For a mutex this does not matter, because the key itself names the holder.
bool write_outcome::may_be_filtered(const snapshot& seen) const {
  if (parts_.options.form == record_form::session) return false;
  bool names_others = false;
  for (const std::string& holder : seen.record.holders) {
    if (parts_.members.is_ours(holder)) continue;
    if (seen.find(holder)) return false;
    names_others = true;
  }
  return names_others;
}

/// Takes the reply to a join that has read only the record, or to a write whose listing may be incomplete. A session
/// that joins the back of the queue while no slot is free does not need to know the entries before it. If a slot is
/// free, or anything else is unexpected, everything must be read.
void write_outcome::saw_own_join(const transaction& txn, snapshot seen) {
  const bool is_news = parts_.view.now().index < seen.index;
  const std::uint32_t limit = limit_of(seen.record, parts_.options);
  const bool full = seen.record.limit == limit && (seen.record.closed || seen.record.holders.size() >= limit);
  const bool is_grant = grants_us(seen.record, parts_.members);  // then our entry must be read, too
  parts_.view.wrote(seen.index, txn.id, ctx_.last_request(), false, [&](snapshot& now) {
    txn.patch(now, seen.index);
    if (seen.lock_index > now.lock_index) now.take_record(seen.record, seen.lock_flags, seen.lock_index);
  });
  if (is_news && full && !is_grant)
    parts_.view.mark_partial();
  else if (is_news)
    parts_.view.mark_stale();
  observer_.refresh();
  parts_.assess_limit();
}

/// Returns to the cluster the slots that users have released, without writing the record. `refused` is the write
/// before: it has lost to faster processes, or it has returned slots in this way, or tried to. When the new write is
/// applied, the releases are answered. From now on these sessions serve no user, whatever the outcome of the write:
/// another process may take them out of the record, guarded by the record's index alone. The other moves of `refused`
/// stay open until a read shows their outcome. Returns false if there are no such slots with entries as they were
/// granted, if the limit is 1, or if the form of the record is not `map`.
bool write_outcome::return_slots(transaction& refused, bool wakes) {
  if (parts_.limit() == 1 || parts_.options.form != record_form::map) return false;
  std::vector<const member*> who;
  for (const auto& [id, m] : parts_.members) {
    const contender* const entry = parts_.view.now().find(m.session);
    const bool is_as_granted = entry && entry->modify_index == m.grant;
    const bool is_free = m.is_ready() || refused.moves(id);
    if (m.holds() && m.gives_back != slot_id::none && is_as_granted && is_free) who.push_back(&m);
  }
  if (who.empty()) return false;
  // The order is slot by slot. Otherwise many releases of several slots each would all be answered only at the end.
  std::stable_sort(who.begin(), who.end(), [](const member* a, const member* b) {
    return std::tie(a->idle_since, a->gives_back) < std::tie(b->idle_since, b->gives_back);
  });
  who.resize(std::min(who.size(), returns_max));
  transaction txn = compose_return(facts{parts_, ctx_.now()}, who, wakes, ctx_.new_request());
  txn.movers = std::move(refused.movers);
  txn.refused = true;
  txn.by_record = parts_.view.outrun() && parts_.situation.contested;
  for (const member* const each : who) {
    member& m = parts_.members[each->id];
    m.has_returned = true;
    m.phase.go_to(phase::moving);
    parts_.slots.erase_spare(m.id);
    if (!txn.moves(m.id)) txn.movers.push_back(m.id);
  }
  parts_.read_back.sent(txn);
  parts_.write.send(ctx_, std::move(txn));
  return true;
}

/// The record still names these sessions, so the process goes on trying to write it. Slots that did not fit into this
/// write are returned first.
void write_outcome::slots_returned(transaction txn, std::uint64_t index) {
  parts_.view.wrote(index, txn.id, ctx_.last_request(), false, [&](snapshot& now) { txn.patch(now, index); });
  for (const std::string& session : txn.returned)
    if (member* const m = parts_.members.find(session)) parts_.slots.free_member(ctx_, m->gives_back);
  if (return_slots(txn, false)) return observer_.refresh();
  parts_.write.doubt(ctx_, std::move(txn));
  observer_.refresh();
}

/// True if a later read must show a change: something that the write was based on is not there any more. (The lock of a
/// number is also refused if another session had locked it before, and a `get` if its key was missing before. A session
/// of ours that has ended may not have been seen in any read.)
bool write_outcome::must_show_change(const transaction& refused, const refusals& all) const {
  return std::any_of(all.begin(), all.end(), [&](const event::refused_operation& each) {
    if (each.operation >= refused.operations.size()) return false;
    const kv_operation& what = refused.operations[each.operation];
    if (each.reason == event::refusal::invalid_session) return !parts_.members.find(what.session);
    return is_conflict(each) && what.verb != kv_verb::get && !number_in(what.key, parts_.keys.entries);
  });
}

void write_outcome::refused(transaction txn, const refusals& all) {
  parts_.write.refused();
  if (must_show_change(txn, all))
    parts_.read_back.refused(ctx_.last_request());
  else
    parts_.read_back.forget();
  if (!txn.returned.empty()) return return_refused(std::move(txn), all);
  const cause why = cause_of(txn, all);
  parts_.duty.refused(why.by_grantee, why.is_outrun);
  mark_view(txn, why);
  if (why.is_outrun && parts_.duty.is_outrun() && return_slots(txn, true)) return;
  const std::vector<kv_operation> operations = txn.operations;
  if (why.gave && !why.only_delayed) {
    txn.refused = true;
    txn.by_record = why.by_record && parts_.view.outrun() && parts_.situation.contested;
    parts_.write.doubt(ctx_, std::move(txn));
  } else {
    observer_.end_moves(txn, false);
  }
  observer_.refresh();
  if (!parts_.waiters.empty() && parts_.waiters.front().terms.once) ++parts_.waiters.front().conflicts;
  answer_refusals(operations, all);
}

/// A write that returns slots without writing the record was refused. If only a waiter that it wakes had changed, it is
/// sent again and wakes nobody.
void write_outcome::return_refused(transaction txn, const refusals& all) {
  const bool by_woken = !txn.woken.empty() && all.size() == 1 && all.front().operation + 1 == txn.operations.size() &&
                        is_conflict(all.front());
  if (by_woken && return_slots(txn, false)) return;
  parts_.view.mark_stale();
  parts_.write.doubt(ctx_, std::move(txn));
  observer_.refresh();
  if (std::all_of(all.begin(), all.end(), is_conflict)) return parts_.write.conflicted(ctx_, false);
  parts_.write.failed(ctx_, parts_.failed(error::transaction_conflict, "a transaction was refused"));
}

write_outcome::cause write_outcome::cause_of(const transaction& txn, const refusals& all) const {
  const std::size_t behind_record = txn.record_operations, behind_grants = behind_record + txn.granted.size();
  cause why;
  why.gave =
      std::any_of(txn.movers.begin(), txn.movers.end(), [this](member_id id) { return parts_.members[id].holds(); });
  if (all.empty()) return why;
  why.only_delayed = std::all_of(all.begin(), all.end(), [](const event::refused_operation& each) {
    return each.reason == event::refusal::lock_delay;
  });
  why.by_record = why.gave && std::all_of(all.begin(), all.end(), [&](const event::refused_operation& each) {
                    return is_conflict(each) && each.operation < behind_record;
                  });
  why.by_grantee = why.gave && std::any_of(all.begin(), all.end(), [&](const event::refused_operation& each) {
                     return is_conflict(each) && each.operation >= behind_record && each.operation < behind_grants;
                   });
  why.is_outrun = why.gave && std::all_of(all.begin(), all.end(), is_conflict);
  return why;
}

/// If a lock delay is the only reason, no read is needed, because a read would not show the lock delay.
void write_outcome::mark_view(const transaction& refused, const cause& why) {
  const bool is_record_newer = parts_.view.current() && refused.guarded && parts_.view.now().lock_index != refused.base;
  if (why.only_delayed || is_record_newer) return;
  if (why.by_record && parts_.limit() > 1)
    parts_.view.mark_outrun(refused.base);
  else
    parts_.view.mark_stale();
}

/// Handles the reasons of the single operations, and decides when the next write may be sent.
void write_outcome::answer_refusals(const std::vector<kv_operation>& operations, const refusals& all) {
  bool denied = false, broken = false, delayed = false;
  for (const event::refused_operation& each : all) {
    const kv_operation what = each.operation < operations.size() ? operations[each.operation] : kv_operation{};
    switch (each.reason) {
      case event::refusal::conflict:
        break;
      case event::refusal::lock_delay:
        if (const auto number = number_in(what.key, parts_.keys.entries))
          writer_.number_refused(ctx_, *number);
        else
          delayed = true;
        break;
      case event::refusal::invalid_session:
        if (member* const m = parts_.members.find(what.session))
          session_care::drop(ctx_, parts_, *m, loss_reason::session_invalidated);
        break;
      case event::refusal::permission_denied:
        denied = true;
        break;
      case event::refusal::other:
        broken = true;
        break;
    }
  }
  if (denied)
    parts_.waiters.fail_all(
        ctx_, parts_.failed(error::permission_denied, "the ACL token may not write below " + parts_.options.prefix));
  if (denied || broken)
    parts_.write.failed(ctx_, parts_.failed(error::transaction_conflict, "a transaction was refused"));
  else
    parts_.write.works();
  parts_.write.conflicted(ctx_, delayed);
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <tuple>
#include <utility>

#include "protocol/pool.hpp"

// Snapshots of the cluster, outcomes of writes, and their consequences for us.

namespace holdfast::protocol {

namespace {

/// One write returns at most this many slots without writing the record. Each slot takes up to three operations, and
/// one more operation wakes a waiter.
constexpr std::size_t returns_max = 20;

}  // namespace

void pool::take_listing(boost::system::result<snapshot> listing, request_id id, time_point asked_at) {
  if (!listing) return refuse_listing(listing.error());
  own_grants_.listed(ctx_, parts_, *listing, asked_at);
  const std::uint64_t index_before = parts_.view.now().lock_index;
  waits_.answered(id, listing->index < parts_.view.now().index || listing->lock_index != index_before);
  // The view is newer than this listing.
  if (!parts_.view.accept(*std::move(listing), id, ctx_.last_request())) return refresh();
  parts_.view.listed(now());
  if (parts_.view.current()) parts_.watches.stop_sleeping(ctx_, parts_.view.listed_index());
  if (parts_.view.now().lock_index != index_before) parts_.duty.moved_on();
  if (parts_.write.is_told_by(id)) resolve();
  parts_.others.saw(ctx_, parts_.view.now(), parts_.members, parts_.options);
  refresh();
  assess_limit();
}

/// The lock key belongs to another application, or its record cannot be read. Nothing may be written there. So our
/// entries are removed only by ending their sessions.
void pool::refuse_listing(const error_code& why) {
  parts_.view.forget();
  const bool foreign = why != error::corrupt_record;
  parts_.waiters.fail_all(
      ctx_, failed(why, foreign ? "the lock key's flags are another application's" : "the lock record cannot be read"));
  for (auto at = parts_.members.begin(); at != parts_.members.end();) {
    member& m = (at++)->second;
    if (m.slot != slot_id::none) {
      parts_.slots.lose(ctx_, m.slot, parts_.members, loss_reason::removed, failed(why, "left"));
      m.standing.go_to(standing::absent);  // its place in the cluster is not tracked any more
    } else if (m.standing != standing::absent || m.phase == phase::moving) {
      care_.drop(ctx_, parts_, m, loss_reason::none, failed(why, "left"));
    }
  }
  if (parts_.write.is_in_doubt()) parts_.write.take();
  parts_.duty.now_owes(false);
}

void pool::refresh() {
  for (auto at = parts_.members.begin(); at != parts_.members.end();) refresh((at++)->second);
  parts_.slots.list_spares(parts_.members);
  if (parts_.options.form == record_form::session && !parts_.view.now().record.holders.empty())
    parts_.write.lock_delay_is_over();
  parts_.claims.refresh(parts_.view.now());
  taking_.saw(ctx_, parts_);
  parts_.situation.assess_contenders(parts_.view, parts_.members, parts_.claims, parts_.options);
  parts_.mutex.saw(ctx_, parts_.situation.foreign_holder || parts_.view.now().record.holders.empty());
  parts_.slots.revoke(ctx_, parts_.view.now().record.revoked, parts_.members);
}

void pool::refresh(member& m) {
  if (!m.is_created()) return;
  if (m.has_returned) return refresh_returned(m);
  const contender* entry = parts_.view.now().find(m.session);
  if (entry) m.entry_created = entry->create_index;
  const standing before = m.standing;
  const standing seen = !entry                                           ? standing::absent
                        : parts_.view.now().record.names(entry->session) ? standing::holding
                                                                         : standing::waiting;
  if (m.phase == phase::moving) return m.standing.go_to(seen);  // the pending write explains any change
  if (before != standing::absent && seen == standing::absent) {
    // This process did not remove the entry. The session has ended, or somebody has deleted the entry, or another
    // process has taken back a grant that was not accepted.
    const bool is_accepted = m.acceptance == acceptance_state::not_needed;
    return care_.drop(ctx_, parts_, m, is_accepted ? loss_reason::session_invalidated : loss_reason::not_accepted);
  }
  m.standing.go_to(seen);
  const bool has_number = facts_now().number_of(m) != nullptr;
  if (m.lost) {
    if (entry) m.grant = entry->modify_index;
    return;
  }
  // The record still names the session, but its entry was deleted while a write of ours was pending. If we made the
  // entry again, the session would hold at once, and the record would keep its index. Another process may already have
  // sent a write that removes the session, and that only the record's index guards. Consul could apply it while we
  // hold. So the session ends.
  const bool is_named = parts_.options.form == record_form::map && parts_.view.now().record.names(m.session);
  if (!entry && m.slot == slot_id::none && is_named) {
    parts_.others.left(m.session);
    return care_.drop(ctx_, parts_, m, loss_reason::none);
  }
  if (m.slot != slot_id::none && (!m.holds() || has_number != parts_.options.numbered))
    parts_.slots.lose(ctx_, m.slot, parts_.members, loss_reason::removed);
  // Somebody has taken the slot away, but not the number. Nobody else can have that number until this session has
  // ended.
  if (has_number && !m.holds()) return care_.drop(ctx_, parts_, m, loss_reason::removed);
  // The session may have lost its slot and got it again unseen, or a write of ours may not have been applied. So a
  // grant is new only if the entry has a new index.
  if (m.holds() && m.grant != entry->modify_index) {
    parts_.slots.free_member(ctx_, m.gives_back);
    m.granted_at = m.idle_since = now();
    m.grant = entry->modify_index;
    m.handoffs = 0;
    own_grants_.granted(ctx_, m, *entry, parts_.options);
    parts_.mutex.granted_anew();
  }
  if (!m.holds()) {
    parts_.slots.free_member(ctx_, m.gives_back);
    m.forget_acceptance();
  }
  if (m.waits()) m.waiting_index = entry->modify_index;
  if (m.waits() && before != standing::waiting) m.waiting_since = now();
}

/// Refreshes a session that has released its slot without writing the record. The session may be used again when the
/// record does not name it and its entry is gone. Before that, another process may take it out of the record by a write
/// that only the record's index guards.
void pool::refresh_returned(member& m) {
  const snapshot& seen = parts_.view.now();
  const bool is_marked = seen.has_given_back(m.session);
  const bool is_seen = is_marked || seen.find(m.session) || seen.record.names(m.session);
  const bool may_stand = is_seen || !parts_.view.current();  // if the view is not current, the entry may still stand
  m.standing.go_to(may_stand ? standing::holding : standing::absent);
  if (is_marked) parts_.slots.free_member(ctx_, m.gives_back);
  if (m.phase == phase::moving || m.holds()) return;
  parts_.slots.free_member(ctx_, m.gives_back);
  m.has_returned = false;
  m.forget_acceptance();
  m.idle_since = ctx_.now();
}

void pool::applied(transaction txn, std::vector<kv_entry> results) {
  transaction::reply its = txn.applied(std::move(results));
  writer_.applied(txn);
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
  // If this write has removed a member's entry, the record does not name that member any more, so it may be used again.
  for (const member_id id : txn.movers)
    if (member& m = parts_.members[id];
        std::find(txn.removed.begin(), txn.removed.end(), m.session) != txn.removed.end())
      m.has_returned = false;
  for (const auto& [session, text] : txn.inserted)
    if (member* const m = parts_.members.find(session); m && !txn.record.names(session)) m->had_no_grant(txn.sent_at);
  end_moves(txn, true);
  if (its.has_read) {
    auto seen = snapshot_of(std::move(its.read), its.index);
    if (!seen)
      for (const member_id id : txn.movers)
        // Their entries may stand in the queue, so `refuse_listing` drops them with the others.
        parts_.members[id].standing.go_to(standing::waiting);
    if (seen && txn.reads == transaction::read_scope::record) return saw_own_join(txn, *std::move(seen));
    if (seen && may_be_filtered(*seen)) {
      saw_own_join(txn, *std::move(seen));
      parts_.view.mark_stale();
    } else {
      take_listing(std::move(seen), txn.id, txn.sent_at);
    }
    return taking_.granted(txn);
  }
  const bool is_news = parts_.view.now().index < its.index;  // false if a listing has already shown this write
  parts_.view.wrote(its.index, txn.id, ctx_.last_request(), txn.guarded,
                    [&](snapshot& now) { txn.patch(now, its.index, its.record_index); });
  taking_.granted(ctx_, txn, parts_);
  // Other contenders may stand before the sessions that this write puts into the queue.
  for (const auto& [session, text] : txn.inserted)
    if (is_news && !parts_.view.now().record.names(session)) parts_.view.mark_partial();
  parts_.duty.moved_on();
  refresh();
  assess_limit();
}

/// Whether a listing that came with a write of ours may lack entries that the token may not read. Consul reports this
/// for a plain listing, but not for a listing in a transaction. If the record names other holders, and the listing
/// shows no entry of any of them, either all of them have died, or their entries are hidden. Then a plain listing must
/// decide. For a mutex this does not matter, because the key itself names the holder.
bool pool::may_be_filtered(const snapshot& seen) const {
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
void pool::saw_own_join(const transaction& txn, snapshot seen) {
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
  refresh();
  assess_limit();
}

/// Returns to the cluster the slots that users have released, without writing the record. `refused` is the write
/// before: it has lost to faster processes, or it has returned slots in this way, or tried to. When the new write is
/// applied, the releases are answered. From now on these sessions serve no user, whatever the outcome of the write:
/// another process may take them out of the record, guarded by the record's index alone. The other moves of `refused`
/// stay open until a read shows their outcome. Returns false if there are no such slots with entries as they were
/// granted, if the limit is 1, or if the form of the record is not `map`.
bool pool::return_slots(transaction& refused, bool wakes) {
  if (limit() == 1 || parts_.options.form != record_form::map) return false;
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
  transaction txn = compose_return(facts_now(), who, wakes, ctx_.new_request());
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
  parts_.write.send(ctx_, std::move(txn));
  return true;
}

/// The record still names these sessions, so the process goes on trying to write it. Slots that did not fit into this
/// write are returned first.
void pool::slots_returned(transaction txn, std::uint64_t index) {
  parts_.view.wrote(index, txn.id, ctx_.last_request(), false, [&](snapshot& now) { txn.patch(now, index); });
  for (const std::string& session : txn.returned)
    if (member* const m = parts_.members.find(session)) parts_.slots.free_member(ctx_, m->gives_back);
  if (return_slots(txn, false)) return refresh();
  parts_.write.doubt(ctx_, std::move(txn));
  refresh();
}

void pool::refused(transaction txn, const std::vector<event::refused_operation>& refusals) {
  parts_.write.refused();
  if (!txn.returned.empty()) {
    const bool by_woken = !txn.woken.empty() && refusals.size() == 1 &&
                          refusals.front().operation + 1 == txn.operations.size() &&
                          refusals.front().reason == event::refusal::conflict;
    if (by_woken && return_slots(txn, false)) return;
    const bool is_conflict = std::all_of(refusals.begin(), refusals.end(), [](const event::refused_operation& each) {
      return each.reason == event::refusal::conflict;
    });
    parts_.view.mark_stale();
    parts_.write.doubt(ctx_, std::move(txn));
    refresh();
    if (is_conflict) return parts_.write.conflicted(ctx_, false);
    return parts_.write.failures.failed(failed(error::transaction_conflict, "a transaction was refused"), now(),
                                        ctx_.random());
  }
  // If a lock delay is the only reason, no read is needed, because a read would not show the lock delay.
  const bool only_delayed = !refusals.empty() && std::all_of(refusals.begin(), refusals.end(), [&](const auto& each) {
    return each.reason == event::refusal::lock_delay;
  });
  const bool seen_why =
      only_delayed || (parts_.view.current() && txn.guarded && parts_.view.now().lock_index != txn.base);
  const bool gave =
      std::any_of(txn.movers.begin(), txn.movers.end(), [this](member_id id) { return parts_.members[id].holds(); });
  // Only the record's index was wrong, usually because other slots have moved. The slots that we release can still be
  // handed on.
  const bool by_record = gave && !refusals.empty() &&
                         std::all_of(refusals.begin(), refusals.end(), [&](const event::refused_operation& each) {
                           return each.operation < txn.record_operations && each.reason == event::refusal::conflict;
                         });
  const bool by_grantee = std::any_of(refusals.begin(), refusals.end(), [&](const event::refused_operation& each) {
    return each.operation >= txn.record_operations && each.operation < txn.record_operations + txn.granted.size() &&
           each.reason == event::refusal::conflict;
  });
  // Other processes were faster, and nothing else is wrong. They may have changed the record, granted the slot, or
  // removed the entry of a released slot.
  const bool by_others = std::all_of(refusals.begin(), refusals.end(), [&](const event::refused_operation& each) {
    return each.reason == event::refusal::conflict;
  });
  const bool is_outrun = gave && by_others && !refusals.empty();
  parts_.duty.refused(gave && by_grantee, is_outrun);
  if (!seen_why && by_record && limit() > 1)
    parts_.view.mark_outrun(txn.base);
  else if (!seen_why)
    parts_.view.mark_stale();
  if (is_outrun && parts_.duty.is_outrun() && return_slots(txn, true)) return;
  const std::vector<kv_operation> operations = txn.operations;
  if (gave && !only_delayed) {
    txn.refused = true;
    txn.by_record = by_record && parts_.view.outrun() && parts_.situation.contested;
    parts_.write.doubt(ctx_, std::move(txn));
  } else {
    end_moves(txn, false);
  }
  refresh();
  if (!parts_.waiters.empty() && parts_.waiters.front().once) ++parts_.waiters.front().conflicts;
  bool denied = false, broken = false, delayed = false;
  for (const event::refused_operation& each : refusals) {
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
          care_.drop(ctx_, parts_, *m, loss_reason::session_invalidated);
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
        ctx_, failed(error::permission_denied, "the ACL token may not write below " + parts_.options.prefix));
  if (denied || broken)
    parts_.write.failures.failed(failed(error::transaction_conflict, "a transaction was refused"), now(),
                                 ctx_.random());
  else
    parts_.write.failures.over();
  parts_.write.conflicted(ctx_, delayed);
}

/// Ends the moves of a transaction. The next `refresh` finds out where its members stand. After a write that was
/// applied, or may have been, they count as absent until then. So a missing entry is not taken for a loss. `refresh`
/// tells a new grant by the index of the entry.
void pool::end_moves(const transaction& txn, bool maybe_applied) {
  for (const member_id id : txn.movers) {
    member& m = parts_.members[id];
    m.phase.go_to(phase::settled);
    if (!maybe_applied) continue;
    m.standing.go_to(standing::absent);
    if (m.gives_back == slot_id::none) m.idle_since = now();
  }
}

/// Takes a listing that was requested after a write came into doubt. If the outcome of the write is unknown, and the
/// listing does not show it, the write may still be applied later. Then the sessions that it moves must end. A session
/// whose slot a user has not released yet ends after that release.
void pool::resolve() {
  const transaction txn = parts_.write.take();
  if (txn.refused) return end_moves(txn, false);  // the listing is newer, and shows where the members stand
  if (txn.is_decided_by(parts_.view.now())) return end_moves(txn, true);
  if (txn.movers.empty()) return;
  act(action::note{"a write below " + parts_.options.prefix + " has an unknown outcome: its sessions end"});
  for (const member_id id : txn.movers) {
    member& m = parts_.members[id];
    if (m.slot != slot_id::none)
      m.phase.go_to(phase::settled);  // its user decides when it ends
    else
      care_.drop(ctx_, parts_, m, loss_reason::none, txn.why);
  }
}

/// Takes a read of the record alone, after a write that releases slots was refused only for the record's index. A
/// member that the record still names still holds its slot.
void pool::resolve_by_record(std::uint64_t index) {
  const lock_record& record = parts_.view.now().record;
  const std::vector<member_id>& movers = parts_.write.current().movers;
  const bool holds =
      parts_.view.now().lock_index == index && std::all_of(movers.begin(), movers.end(), [&](member_id id) {
        const member& m = parts_.members[id];
        return !m.holds() || record.names(m.session);
      });
  if (!holds) {
    parts_.write.needs_everything();
    return parts_.view.mark_stale();
  }
  end_moves(parts_.write.take(), false);
  refresh();
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/cluster_observer.hpp"

#include <algorithm>
#include <utility>

#include "protocol/pool/facts.hpp"
#include "protocol/pool/session_care.hpp"
#include "protocol/pool/wanted_watches.hpp"

namespace holdfast::protocol {

void cluster_observer::take_listing(boost::system::result<snapshot> listing, request_id id, time_point asked_at) {
  if (!listing) return refuse_listing(listing.error());
  own_grants_.listed(ctx_, parts_, *listing, asked_at);
  const std::uint64_t index_before = parts_.view.now().lock_index;
  waits_.answered(id, listing->index < parts_.view.now().index || listing->lock_index != index_before);
  // The view is newer than this listing.
  if (!parts_.view.accept(*std::move(listing), id, ctx_.last_request())) return refresh();
  parts_.view.listed(ctx_.now());
  for (auto& [id, m] : parts_.members)
    if (m.removed > parts_.view.now().index) m.removed = 0;  // Consul's index has gone backwards
  if (parts_.view.current()) parts_.watches.stop_sleeping(ctx_, parts_.view.listed_index());
  if (parts_.view.now().lock_index != index_before) parts_.duty.moved_on();
  if (parts_.write.is_told_by(id)) resolve();
  parts_.others.saw(ctx_, parts_.view.now(), parts_.members, parts_.options);
  refresh();
  parts_.assess_limit();
}

/// The lock key belongs to another application, or its record cannot be read. Nothing may be written there. So our
/// entries are removed only by ending their sessions.
void cluster_observer::refuse_listing(const error_code& why) {
  parts_.view.forget();
  const bool foreign = why != error::corrupt_record;
  parts_.waiters.fail_all(ctx_, parts_.failed(why, foreign ? "the lock key's flags are another application's"
                                                           : "the lock record cannot be read"));
  for (auto at = parts_.members.begin(); at != parts_.members.end();) {
    member& m = (at++)->second;
    if (m.slot != slot_id::none) {
      parts_.slots.lose(ctx_, m.slot, parts_.members, loss_reason::removed, parts_.failed(why, "left"));
      m.standing.go_to(standing::absent);  // its place in the cluster is not tracked any more
    } else if (m.standing != standing::absent || m.phase == phase::moving) {
      session_care::drop(ctx_, parts_, m, loss_reason::none, parts_.failed(why, "left"));
    }
  }
  if (parts_.write.is_in_doubt()) parts_.write.take();
  parts_.duty.now_owes(false);
}

void cluster_observer::refresh() {
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

void cluster_observer::refresh(member& m) {
  if (!m.is_created()) return;
  if (m.has_returned) return refresh_returned(m);
  const contender* entry = parts_.view.now().find(m.session);
  if (entry) m.entry_created = entry->create_index;
  const standing before = m.standing;
  const standing seen = !entry                                           ? standing::absent
                        : parts_.view.now().record.names(entry->session) ? standing::holding
                                                                         : standing::waiting;
  // We have removed this entry, and yet a read shows it as it was. The read is wrong, or a snapshot was restored. The
  // slot may be somebody else's, so the session ends.
  if (entry && entry->modify_index <= m.removed) return session_care::drop(ctx_, parts_, m, loss_reason::removed);
  if (m.phase == phase::moving) return m.standing.go_to(seen);  // the pending write explains any change
  if (before != standing::absent && seen == standing::absent) return entry_has_gone(m);
  m.standing.go_to(seen);
  const bool has_number = facts{parts_, ctx_.now()}.number_of(m) != nullptr;
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
    return session_care::drop(ctx_, parts_, m, loss_reason::none);
  }
  if (m.slot != slot_id::none && (!m.holds() || has_number != parts_.options.numbered))
    parts_.slots.lose(ctx_, m.slot, parts_.members, loss_reason::removed);
  // Somebody has taken the slot away, but not the number. Nobody else can have that number until this session has
  // ended.
  if (has_number && !m.holds()) return session_care::drop(ctx_, parts_, m, loss_reason::removed);
  // The session may have lost its slot and got it again unseen, or a write of ours may not have been applied. So a
  // grant is new only if the entry has a new index.
  if (entry && m.holds() && m.grant != entry->modify_index) was_granted(m, *entry);
  if (!m.holds()) {
    parts_.slots.free_member(ctx_, m.gives_back);
    m.acceptance = {};
  }
  if (entry && m.waits()) m.waiting_index = entry->modify_index;
  if (m.waits() && before != standing::waiting) m.waiting_since = ctx_.now();
}

/// This process did not remove the member's entry. The session has ended, or somebody has deleted the entry, or another
/// process has taken back a grant that was not accepted.
void cluster_observer::entry_has_gone(member& m) {
  session_care::drop(ctx_, parts_, m,
                     m.acceptance.is_open() ? loss_reason::not_accepted : loss_reason::session_invalidated);
}

void cluster_observer::was_granted(member& m, const contender& entry) {
  parts_.slots.free_member(ctx_, m.gives_back);
  m.granted_at = m.idle_since = ctx_.now();
  m.grant = entry.modify_index;
  m.handoffs = 0;
  own_grants_.granted(ctx_, m, entry, parts_.options);
  parts_.mutex.granted_anew();
}

/// Refreshes a session that has released its slot without writing the record. The session may be used again when the
/// record does not name it and its entry is gone. Before that, another process may take it out of the record by a write
/// that only the record's index guards.
void cluster_observer::refresh_returned(member& m) {
  const snapshot& seen = parts_.view.now();
  const bool is_marked = seen.has_given_back(m.session);
  const bool is_seen = is_marked || seen.find(m.session) || seen.record.names(m.session);
  const bool may_stand = is_seen || !parts_.view.current();  // if the view is not current, the entry may still stand
  m.standing.go_to(may_stand ? standing::holding : standing::absent);
  if (is_marked) parts_.slots.free_member(ctx_, m.gives_back);
  if (m.phase == phase::moving || m.holds()) return;
  parts_.slots.free_member(ctx_, m.gives_back);
  m.has_returned = false;
  m.acceptance = {};
  m.idle_since = ctx_.now();
}

/// Ends the moves of a transaction. The next `refresh` finds out where its members stand. After a write that was
/// applied, or may have been, they count as absent until then. So a missing entry is not taken for a loss. `refresh`
/// tells a new grant by the index of the entry.
void cluster_observer::end_moves(const transaction& txn, bool maybe_applied) {
  for (const member_id id : txn.movers) {
    member& m = parts_.members[id];
    m.phase.go_to(phase::settled);
    if (!maybe_applied) continue;
    m.standing.go_to(standing::absent);
    if (m.gives_back == slot_id::none) m.idle_since = ctx_.now();
  }
}

/// Takes a listing that was requested after a write came into doubt. If the outcome of the write is unknown, and the
/// listing does not show it, the write may still be applied later. Then the sessions that it moves must end. A session
/// whose slot a user has not released yet ends after that release.
void cluster_observer::resolve() {
  const transaction txn = parts_.write.take();
  if (txn.refused) return end_moves(txn, false);  // the listing is newer, and shows where the members stand
  if (txn.is_decided_by(parts_.view.now())) return end_moves(txn, true);
  if (txn.movers.empty()) return;
  ctx_.act(action::note{log_kind::outcome_unknown, parts_.options.prefix, {}, txn.why.details.to_string()});
  for (const member_id id : txn.movers) {
    member& m = parts_.members[id];
    if (m.slot != slot_id::none)
      m.phase.go_to(phase::settled);  // its user decides when it ends
    else
      session_care::drop(ctx_, parts_, m, loss_reason::none, txn.why);
  }
}

/// Takes a read of the record alone, after a write that releases slots was refused only for the record's index. A
/// member that the record still names still holds its slot.
void cluster_observer::resolve_by_record(std::uint64_t index) {
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

void cluster_observer::check_watches() {
  if (ctx_.due_or_wake(parts_.watches.failures().lasts_until(parts_.options.outage_grace)))
    parts_.slots.lose_all(ctx_, parts_.members, loss_reason::watch_failed, parts_.watches.failures().last());
  const facts f{parts_, ctx_.now()};
  const std::vector<watch> wanted = ctx_.ask([&](moment& at) { return wanted_watches(at, f, parts_.watches); });
  if (wanted.empty()) {
    if (!any_holds(parts_.members)) parts_.watches.works();
    return;
  }
  if (!ctx_.due_or_wake(parts_.watches.failures().retry_at()) || !ctx_.due_or_wake(parts_.watches.early_until()) ||
      !ctx_.due_or_wake(parts_.read_back.retry_at()))
    return;
  parts_.watches.want(ctx_, wanted, parts_.keys.prefix, parts_.expects_keys(), parts_.options.watch_wait,
                      [&](const std::string& key) {
                        return !ctx_.ask([&](moment& at) { return is_own_entry(at, f, parts_.watches, key); });
                      });
}

void cluster_observer::on_watch_failed(const watch& asked, failure why) {
  // A watch of a key beside a watch of everything is needed only for some deletions. It is not started again for a
  // while.
  const bool is_of_key = !asked.is_of_everything();
  if (parts_.watches.has_everything() && is_of_key)
    parts_.watches.leave_out_own_entry(ctx_.now() + parts_.options.watch_wait);
  // The failed watch is not wanted any more, or a watch of everything is running and shows the same.
  const facts f{parts_, ctx_.now()};
  const std::vector<watch> wanted = ctx_.ask([&](moment& at) { return wanted_watches(at, f, parts_.watches); });
  if (!watch_set::is_among(wanted, asked.key) || parts_.watches.has_everything()) return;
  if (is_of_key) {
    parts_.watches.replace_keys(ctx_.now() + parts_.options.watch_wait);
    const bool is_record = asked.key == parts_.keys.lock;
    const member* m = is_record ? nullptr : parts_.members.find(parts_.keys.session_in(asked.key));
    const bool is_holders = is_record || (m && m->holds());
    if (!is_holders && any_holds(parts_.members)) return;  // no slot is in danger; a watch of everything is next
  }
  if (parts_.watches.is_news_of_failure())
    ctx_.act(action::note{log_kind::watch_failed, parts_.options.prefix, {}, why.details.to_string()});
  if (is_final(why.code)) parts_.waiters.fail_all(ctx_, why);
  parts_.watches.failed(ctx_, std::move(why));
}

void cluster_observer::watches_work() {
  if (parts_.watches.is_news_of_success()) ctx_.act(action::note{log_kind::watch_restored, parts_.options.prefix});
  parts_.watches.works();
}

void cluster_observer::saw_record(std::optional<kv_entry> pair) {
  if (pair &&
      pair->modify_index == parts_.view.now().lock_index) {  // the wait has expired, or a read shows nothing new
    if (parts_.view.outrun()) parts_.view.mark_stale();
    return;
  }
  std::vector<kv_entry> listing;
  if (pair) listing.push_back(*pair);
  const auto seen = parts_.snapshot_of(std::move(listing), 0);
  // A newer record that concerns only others is taken as it is. Otherwise everything is listed, because the token of a
  // grant, for example, is in the entry.
  const bool is_grant = seen && grants_us(seen->record, parts_.members);
  const bool is_free = seen && !seen->record.closed &&
                       seen->record.holders.size() < limit_of(seen->record, parts_.options) &&
                       any_waits(parts_.members);
  if (!seen || is_grant || is_free || !pair || seen->lock_index < parts_.view.now().lock_index)
    return parts_.view.mark_stale();
  parts_.view.learned(seen->lock_index, ctx_.last_request(),
                      [&](snapshot& now) { now.take_record(seen->record, seen->lock_flags, seen->lock_index); });
  refresh();
  parts_.assess_limit();
}

void cluster_observer::saw_entry(const watch& asked, std::optional<kv_entry> pair, duration wait) {
  const std::string_view session = parts_.keys.session_in(asked.key);
  if (!pair) parts_.read_back.entry_is_missing(ctx_, parts_.news, session, asked.id, parts_.members);
  const contender* known = parts_.view.now().find(session);
  if (!known || known->modify_index != asked.index) return;  // the view is newer
  const member* m = parts_.members.find(session);
  if (pair && pair->modify_index == asked.index) {
    if (member* const own = parts_.members.find(session); own && own->waits()) own->had_no_grant(asked.asked_at);
    if (!waits_.is_over(ctx_.now() - asked.asked_at, wait, ctx_.last_request())) return parts_.view.mark_stale();
    // The entry before ours has not moved. Our own is watched again for a while, in case we were granted out of turn.
    if (!m)
      for (auto& [id, each] : parts_.members) each.waiting_since = ctx_.now();
    return;
  }
  if (m && m->has_returned) return parts_.view.mark_stale();
  if (!m) return parts_.view.mark_partial();  // the entry before ours has changed or is gone
  if (m->phase == phase::moving) return;
  if (!pair || pair->session != session) {
    parts_.view.learned(0, ctx_.last_request(), [&](snapshot& now) { now.contenders.erase(session); });
    refresh();
    if (any_holds(parts_.members)) parts_.read_everything(ctx_);  // what has become of the others?
    return;
  }
  if (pair->modify_index < asked.index || !is_grantable(pair->flags)) return parts_.view.mark_stale();
  // Only a grant increments the counter in the flags, and the same write puts us into the record. An entry that was
  // created again, by a write of unknown outcome, stands at the back of the queue, and its counter begins at 0.
  const bool is_new = pair->create_index != known->create_index;
  if (!is_new && pair->flags != known->flags) return saw_grant(*pair);
  parts_.view.learned(pair->modify_index, ctx_.last_request(), [&](snapshot& now) {
    now.contenders.erase(session);
    if (is_new) now.record.drop(std::string(session));
    now.contenders.insert({pair->session, pair->value, pair->flags, pair->create_index, pair->modify_index});
  });
  parts_.view.mark_stale();
  refresh();
}

/// Handles the answer to a watch of a number that one of our slots has. If the number has changed, somebody has taken
/// it from the session: an operator, or a process that has taken back a grant. Or Consul has ended the session.
void cluster_observer::saw_number(const watch& asked, std::optional<kv_entry> pair) {
  const auto& numbers = parts_.view.now().numbers;
  const auto known = std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) {
    return each.number == number_in(asked.key, parts_.keys.entries);
  });
  if (known == numbers.end() || known->modify_index != asked.index) return;  // the view is newer
  if (pair && pair->modify_index == asked.index) return;  // the number is unchanged: the wait has expired
  parts_.view.mark_stale();
}

/// Our entry shows that we have been granted. If the granting process knew the queue, the entry also names the
/// contenders that come next.
void cluster_observer::saw_grant(const kv_entry& pair) {
  const std::uint64_t index = pair.modify_index;
  const auto who = succession_in(pair.value, parts_.members.find(pair.session)->text);
  parts_.view.learned(index, ctx_.last_request(), [&](snapshot& now) {
    contender& entry = *now.find(pair.session);
    entry.flags = pair.flags;
    entry.modify_index = index;
    if (now.lock_index == 0) now.record.limit = parts_.limit();
    now.record.add(pair.session);
    if (who && who->number) now.take_number({*who->number, pair.session, index});
  });
  parts_.view.mark_outrun(index - 1);
  const auto is_entry = [this](const contender& next) { return parts_.keys.entry(next.session) != parts_.keys.lock; };
  if (!who || who->next.empty() || who->limit != parts_.limit() ||
      !std::all_of(who->next.begin(), who->next.end(), is_entry)) {
    refresh();
    return parts_.read_everything(ctx_);  // while the slot is in use, because its release must know who waits
  }
  parts_.view.succeeded([&](snapshot& now) {
    if (parts_.limit() == 1 && now.lock_index < index)  // then the record names nobody else, and was not closed
      now.take_record({now.record.form, 1, {pair.session}}, now.lock_flags, index);
    now.contenders.erase_if([this](const contender& entry) { return !parts_.members.is_ours(entry.session); });
    for (const contender& next : who->next)
      if (!now.find(next.session)) now.contenders.insert(next);
    now.complete_to = who->next.back().create_index;
    now.unseen = who->behind;
  });
  parts_.view.listed(ctx_.now());
  refresh();
  parts_.assess_limit();
}

}  // namespace holdfast::protocol

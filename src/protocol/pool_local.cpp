// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/invariant.hpp"
#include "protocol/pool.hpp"

// Time, leases, slots and the local queue.

namespace holdfast::protocol {

void pool::advance() {
  ctx_.forget_times();
  if (parts_.closing.is_over()) return;
  parts_.waiters.expire(ctx_);
  check_leases();
  check_watches();
  outage_rule_.check(ctx_, parts_, !parts_.waiters.empty() && !parts_.all_in_use());
  taking_.watch_makers(ctx_, parts_);
  serve();
  const std::size_t waiting = parts_.waiters.size();
  write();
  if (parts_.waiters.size() != waiting) serve();  // the next waiters, after one was denied or has failed
  own_grants_.accept(ctx_, parts_);               // a slot that was handed on here is accepted for its new user
  const std::size_t sessions = parts_.members.size();
  retire_sessions();
  if (parts_.members.size() != sessions && !parts_.waiters.empty()) write();  // there is room for another session
  finish_close();
  last_.calm = !parts_.closing.has_begun() && !last_.suspect && !parts_.has_lost && !own_grants_.is_any_open() &&
               !parts_.write.is_in_doubt() && !parts_.read.failures.on() && !parts_.write.failures.on() &&
               !parts_.members.failures().on() && !parts_.watches.failures.on() &&
               now() >= parts_.watches.everything_seen_at + facts_now().everything_pause() && !taking_.needs_makers();
  last_.blind = !parts_.situation.contested && !parts_.watches.has_everything();
}

/// Serves the queue after a local event. Returns true if nothing else has to be done. This is so while users of this
/// process hold every slot: then nothing else that `advance` looks at has changed since its last run, and none of its
/// timers has expired.
bool pool::serve_only() {
  if (!last_.calm || now() >= wake()) return false;
  serve();
  if (parts_.slots.in_use() != limit() || !parts_.all_in_use()) return false;
  if (last_.blind && must_know_who_comes(facts_now())) return false;
  ctx_.wake_at(parts_.waiters.first_deadline());
  check_invariant("nothing but the queue was to be served", [this] { return would_do_nothing(); });
  return true;
}

/// Whether `advance` would do nothing; for the invariant above.
bool pool::would_do_nothing() {
  const time_point before = wake();
  const std::size_t actions = ctx_.actions();
  advance();
  return ctx_.forget_times(before) >= before && ctx_.actions() == actions;
}

void pool::check_leases() {
  last_.suspect = parts_.has_lost = false;
  for (auto at = parts_.members.begin(); at != parts_.members.end();) {
    member& m = (at++)->second;
    if (!m.is_created()) continue;
    if (!m.lost && m.has_expired(ctx_)) {
      node_may_be_gone(m);
      if (m.slot == slot_id::none) {
        if (m.waits()) outage_rule_.lost_place(parts_);
        drop(m, loss_reason::none, failed(error::timed_out, "the session could not be renewed in time"));
        continue;
      }
      parts_.slots.lose(ctx_, m.slot, parts_.members, loss_reason::lease_expired, m.why_expired());
    }
    own_grants_.check(ctx_, parts_, m);
    if (m.lost) {
      parts_.has_lost = true;
      const bool is_left_over = m.slot == slot_id::none && due_or_wake(m.idle_since + giving_back_max());
      if (is_left_over || due_or_wake(m.lease.over_at())) drop(m, loss_reason::none);
      continue;
    }
    if (is_stuck(m)) {
      drop(m, loss_reason::none,
           failed(error::timed_out, "the slot could not be released: its session is destroyed instead"));
      continue;
    }
    if (m.keep_alive(ctx_, parts_.watches.failures.on()) && m.slot != slot_id::none)
      parts_.slots.report(ctx_, m, parts_.members);
    last_.suspect = last_.suspect || m.is_suspect();
  }
}

/// How long the pool tries to release a slot by a write. After that it ends the session instead. A closing pool needs
/// the other half of its time for that. While writes fail, ending a session would fail, too, so the write gets all of
/// the time.
duration pool::giving_back_max() const {
  return parts_.closing.has_begun() && !parts_.write.failures.on() ? parts_.options.give_up_after / 2
                                                                   : parts_.options.give_up_after;
}

/// Whether this member still has a slot or an entry that should have been released long ago.
bool pool::is_stuck(const member& m) {
  if (m.gives_back != slot_id::none) return due_or_wake(m.idle_since + giving_back_max());
  const bool unwanted = m.slot == slot_id::none && m.standing != standing::absent && parts_.waiters.empty();
  if (unwanted && parts_.closing.has_begun()) return due_or_wake(m.idle_since + giving_back_max());
  const outage& o = parts_.write.failures;
  return unwanted && o.on() && due_or_wake(std::max(m.idle_since, o.since()) + parts_.options.give_up_after);
}

void pool::serve() {
  while (!parts_.waiters.empty() && !parts_.slots.spares().empty() && serving()) {
    const waiter& first = parts_.waiters.front();
    const facts f = facts_now();
    const std::vector<member_id>& spares = parts_.slots.spares();
    usable_.clear();
    for (auto spare = spares.begin(); spare != spares.end() && usable_.size() < first.count; ++spare)
      if (member& m = parts_.members[*spare]; f.is_usable(m)) usable_.push_back(&m);
    if (usable_.size() < first.count) {
      // The spares that are kept for this waiter must be released when the time for local handoffs is over. Set a timer
      // for that.
      for (const member_id id : spares)
        if (const member& m = parts_.members[id]; parts_.situation.contested && m.handoffs > 0)
          due_or_wake(m.granted_at + parts_.options.local_handoff_time);
      return;
    }
    action::grant its{first.ticket, parts_.slots.open(), {}, never, {}};
    for (member* const m : usable_) {
      parts_.slots.take(ctx_, its.slot, *m);
      m->rejoined_early = false;
      its.token = std::max(its.token, fencing_token{m->grant, m->handoffs++});
      its.deadline = std::min(its.deadline, m->deadline());
      if (const slot_number* const number = f.number_of(*m)) its.numbers.push_back(number->number);
    }
    act(std::move(its));
    parts_.waiters.pop();
    const auto is_suspect = [](const member* m) { return m->is_suspect(); };
    if (std::any_of(usable_.begin(), usable_.end(), is_suspect))
      parts_.slots.report(ctx_, *usable_.front(), parts_.members);
  }
}

std::vector<core::entry> pool::entries_of(slot_id id) {
  std::vector<entry> entries;
  if (const slot* s = parts_.slots.find(id); s && s->held)
    for (const member_id each : s->members) {
      const member& m = parts_.members[each];
      entries.push_back({parts_.keys.entry(m.session), m.session, m.grant});
    }
  return entries;
}

void pool::drop(member& m, loss_reason reason, failure why) {
  node_may_be_gone(m);
  end(m, reason, std::move(why));
}

void pool::end(member& m, loss_reason reason, failure why) {
  if (m.slot != slot_id::none) parts_.slots.lose(ctx_, m.slot, parts_.members, reason, why);
  parts_.slots.drop(m);
  parts_.write.drop(m.id);
  if (m.standing != standing::absent || m.phase == phase::moving) parts_.others.left(m.session);
  m.phase.end();
  const slot_id gives_back = m.gives_back;
  const time_point answer_by = m.lease.deadline();
  ending_member& e = parts_.members.retire(m.id);
  e.until = now() + 2 * parts_.options.ttl;
  e.gives_back = gives_back;
  e.answer_by = answer_by;
  e.why = std::move(why);
  if (!e.why.code) parts_.slots.free_member(ctx_, e.gives_back);
}

bool pool::is_idle_for_too_long(const member& m) {
  return due_or_wake(m.idle_since + parts_.options.session_idle_timeout);
}

/// Whether a session that is not needed can be ended at once. Consul may have ended it already, together with its node,
/// without notifying us. Then holders that this process has never seen may have lost their sessions, too, and may still
/// believe in their slots. If the node can be read, and the session has had an entry, a later read shows whether the
/// node still stands. Otherwise the session is renewed first, and is ended when the answer arrives. A lost session is
/// not renewed any more. A closing pool acquires nothing any more, so it does not need to know.
bool pool::may_retire(member& m) {
  if (parts_.closing.has_begun() || m.lost || (parts_.others.may_read_node() && m.entry_created != 0)) return true;
  if (m.asked_at < m.idle_since + parts_.options.session_idle_timeout) {
    m.lease.renew_by(now());
    m.renew_when_due(ctx_);
  }
  return false;
}

/// Ends the sessions without an entry that are lost or have been idle for too long, and all of them when the pool
/// closes. A lost session stays until its user has released the slot. While sessions are being created, a request for
/// several slots may still be collecting its sessions, so idle sessions are kept. Then the function goes on with the
/// sessions that must end, also those of makers that are gone. It asks Consul to destroy them, and answers the releases
/// that have waited for them for too long.
void pool::retire_sessions() {
  const bool collects = parts_.members.creating() != 0;
  for (auto at = parts_.members.begin(); at != parts_.members.end();) {
    member& m = (at++)->second;
    if (!m.is_ready() || m.standing != standing::absent) continue;
    if (m.lost && m.slot != slot_id::none) continue;
    const bool is_over = parts_.closing.has_begun() || m.lost || (!collects && is_idle_for_too_long(m));
    if (is_over && may_retire(m)) drop(m, loss_reason::none);
  }
  taking_.pursue_all(ctx_, parts_.view);
  for (auto& [session, e] : parts_.members.ending())
    if (e.gives_back != slot_id::none && due_or_wake(e.answer_by)) parts_.slots.free_member(ctx_, e.gives_back, &e.why);
  for (auto at = parts_.members.expired(ctx_); at != parts_.members.ending().end(); at = parts_.members.expired(ctx_))
    parts_.members.remove(at);
  parts_.members.destroy(ctx_, [](const ending_member&) { return true; });
}

void pool::finish_close() {
  if (!parts_.closing.has_begun()) return;
  if (parts_.slots.in_use() == 0) parts_.closing.nobody_uses_anything(ctx_, parts_.options.give_up_after);
  const bool clean =
      parts_.members.empty() && parts_.members.ending().empty() && parts_.write.is_idle() && !parts_.duty.owes();
  if (!clean && !parts_.closing.is_due(ctx_)) return;
  parts_.slots.lose_all(ctx_, parts_.members, loss_reason::closed);
  if (parts_.slots.in_use() != 0) {  // the users' time to release them has expired
    parts_.slots.let_go_of_all(ctx_, parts_.members);
    parts_.closing.once_more(ctx_, parts_.options.give_up_after);
    write();
    return retire_sessions();
  }
  // A grant that is owed is no reason to report a failure: another process writes it.
  const bool has_released_all = parts_.members.empty() && parts_.members.ending().empty();
  const failure why = has_released_all ? failure{} : failed(error::timed_out, "sessions are left to expire");
  for (auto& [id, m] : parts_.members) parts_.slots.free_member(ctx_, m.gives_back, &why);
  for (auto& [session, e] : parts_.members.ending()) parts_.slots.free_member(ctx_, e.gives_back, &why);
  parts_.closing.end(ctx_, why);
}

/// Fails the first waiters that want more slots than the limit. Such a waiter must not block the waiters behind it,
/// even if the limit was lowered after it came. Returns false if the view is older than the waiter, so that the limit
/// must be read first.
bool pool::fail_too_wide() {
  while (!parts_.waiters.empty() && parts_.waiters.front().count > limit()) {
    if (parts_.view.as_of() <= parts_.waiters.front().asked) return false;
    parts_.waiters.fail_first(ctx_, too_many(parts_.waiters.front().count));
  }
  return true;
}

}  // namespace holdfast::protocol

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
  if (closing_.is_over()) return;
  expire_waiters();
  check_leases();
  check_watches();
  check_outage();
  watch_makers();
  serve();
  const std::size_t waiting = waiters_.size();
  write();
  if (waiters_.size() != waiting) serve();  // the next waiters, after one was denied or has failed
  accept_grants();                          // a slot that was handed on here is accepted for its new user
  const std::size_t sessions = members_.size();
  retire_sessions();
  if (members_.size() != sessions && !waiters_.empty()) write();  // there is room for another session
  finish_close();
  last_.calm = !closing_.has_begun() && !last_.suspect && !last_.lost && !last_.open && !write_.is_in_doubt() &&
               !read_.failures.on() && !write_.failures.on() && !members_.failures().on() && !watches_.failures.on() &&
               now() >= watches_.everything_seen_at + facts_now().everything_pause() &&
               (!maker_watch_.on || maker_watch_.unused_since != never);
  last_.blind = !situation_.contested && !watches_.has_everything();
}

/// Serves the queue after a local event. Returns true if nothing else has to be done. This is so while users of this
/// process hold every slot: then nothing else that `advance` looks at has changed since its last run, and none of its
/// timers has expired.
bool pool::serve_only() {
  if (!last_.calm || now() >= wake()) return false;
  serve();
  if (slots_.in_use() != limit() || !all_in_use()) return false;
  if (last_.blind && must_know_who_comes(facts_now())) return false;
  ctx_.wake_at(waiters_.first_deadline());
  check_invariant("nothing but the queue was to be served", [this] { return would_do_nothing(); });
  return true;
}

/// Whether users of this process hold all slots, and the first local waiter can only wait for one of them. Then the
/// queue needs neither a write nor a read. Returns false if the first waiter must be denied or failed instead, because
/// it does not wait (`once`) or wants more slots than the limit.
bool pool::all_in_use() {
  if (slots_.in_use() < limit()) return false;
  // If the limit was lowered, we may hold too many slots. If a slot was taken from us, its entry may stand in the
  // queue.
  const bool others = last_.lost || slots_.in_use() != members_.size();
  if (others && (!slots_.spares().empty() || any_waits(members_))) return false;
  return waiters_.empty() || (!waiters_.front().once && waiters_.front().count <= limit());
}

/// Whether `advance` would do nothing; for the invariant above.
bool pool::would_do_nothing() {
  const time_point before = wake();
  const std::size_t actions = ctx_.actions();
  advance();
  return ctx_.forget_times(before) >= before && ctx_.actions() == actions;
}

void pool::expire_waiters() {
  while (waiters_.first_deadline() != never && due_or_wake(waiters_.first_deadline())) {
    const ticket expired = waiters_.first_to_expire();
    waiters_.remove(expired);
    act(action::deny{expired});
  }
}

void pool::check_leases() {
  last_.suspect = last_.lost = false;
  for (auto at = members_.begin(); at != members_.end();) {
    member& m = (at++)->second;
    if (!m.is_created()) continue;
    if (!m.lost && m.has_expired(ctx_)) {
      node_may_be_gone(m);
      if (m.slot == slot_id::none) {
        if (m.waits()) note_sat_out();
        drop(m, loss_reason::none, failed(error::timed_out, "the session could not be renewed in time"));
        continue;
      }
      lose(m.slot, loss_reason::lease_expired, m.why_expired());
    }
    check_acceptance(m);
    if (m.lost) {
      last_.lost = true;
      const bool is_left_over = m.slot == slot_id::none && due_or_wake(m.idle_since + giving_back_max());
      if (is_left_over || due_or_wake(m.lease.over_at())) drop(m, loss_reason::none);
      continue;
    }
    if (is_stuck(m)) {
      drop(m, loss_reason::none,
           failed(error::timed_out, "the slot could not be released: its session is destroyed instead"));
      continue;
    }
    if (m.keep_alive(ctx_, watches_.failures.on()) && m.slot != slot_id::none) report(m);
    last_.suspect = last_.suspect || m.is_suspect();
  }
}

/// How long the pool tries to release a slot by a write. After that it ends the session instead. A closing pool needs
/// the other half of its time for that. While writes fail, ending a session would fail, too, so the write gets all of
/// the time.
duration pool::giving_back_max() const {
  return closing_.has_begun() && !write_.failures.on() ? options_.give_up_after / 2 : options_.give_up_after;
}

/// Whether this member still has a slot or an entry that should have been released long ago.
bool pool::is_stuck(const member& m) {
  if (m.gives_back != slot_id::none) return due_or_wake(m.idle_since + giving_back_max());
  const bool unwanted = m.slot == slot_id::none && m.standing != standing::absent && waiters_.empty();
  if (unwanted && closing_.has_begun()) return due_or_wake(m.idle_since + giving_back_max());
  const outage& o = write_.failures;
  return unwanted && o.on() && due_or_wake(std::max(m.idle_since, o.since()) + options_.give_up_after);
}

/// The time until which this process may believe that it has a place in the cluster's queue, or a slot that nobody uses
/// yet. An entry that no answer has shown for long may have been deleted, though its session is renewed. A slot
/// that was granted counts for `give_up_after`: in that time the pool accepts the grant, and an acquire gets the slot.
time_point pool::queued_until() const {
  time_point until = time_point::min();
  for (const auto& [id, m] : members_) {
    if (m.lost || !m.is_ready() || m.slot != slot_id::none) continue;
    if (m.holds()) until = std::max(until, std::min(m.lease.deadline(), m.granted_at + options_.give_up_after));
    if (m.waits()) until = std::max(until, std::min(m.lease.deadline(), shown_until(m)));
  }
  return until;
}

/// The time until which the entry of a waiting member counts as existing. The pending blocking query of the entry may
/// have been sent `watch_wait` ago. The query before it, whose answer showed the entry, may have been sent twice that
/// time ago. The TTL is a margin for answers that take long.
time_point pool::shown_until(const member& m) const {
  if (m.ungranted_at == time_point::min()) return time_point::min();
  return m.ungranted_at + 2 * options_.watch_wait + options_.ttl;
}

/// When the lease of a waiting session expires, its place in the queue is lost. Then the outage during which the place
/// was kept counts for the local waiters.
void pool::note_sat_out() {
  for (const outage* o : outages())
    if (o->on() && (!sat_out_ || o->since() < sat_out_->since())) sat_out_ = *o;
}

/// The rule for acquires during an outage. While this process has a place in the queue or an unused slot
/// (`queued_until`), or its users hold all slots, the outage fails no acquire. Otherwise an acquire fails when it has
/// waited for `give_up_after` during the outage. A request that Consul does not answer counts as an outage, too.
void pool::check_outage() {
  const std::optional<outage> before = std::exchange(sat_out_, std::nullopt);
  if (waiters_.empty() || all_in_use()) return;
  if (!due_or_wake(queued_until())) return overdue_.over();
  const auto fail_waiters_since = [this](time_point since, const failure& why) {
    while (!waiters_.empty() && due_or_wake(std::max(since, waiters_.front().came) + options_.give_up_after)) {
      act(action::fail{waiters_.front().ticket, why});
      waiters_.pop();
    }
  };
  if (before) fail_waiters_since(before->since(), before->last());
  for (const outage* o : outages())
    if (o->on()) fail_waiters_since(o->since(), o->last());
  const time_point asked = first_unanswered();
  if (asked == never || waiters_.empty()) return overdue_.over();
  const time_point due_at = std::max(asked, waiters_.front().came) + options_.give_up_after;
  if (overdue_.check(ctx_, due_at, options_.give_up_after / 10))
    fail_waiters_since(asked, failed(error::timed_out, "Consul does not answer"));
}

/// The time at which the oldest pending request was sent that the waiters depend on. Blocking queries and acceptances
/// do not count. `never` if there is no such request.
time_point pool::first_unanswered() const {
  time_point first = write_.is_sent() ? write_.current().sent_at : never;
  if (read_.under_way()) first = std::min(first, read_.sent_at());
  for (const auto& [id, m] : members_)
    if (!m.is_created()) first = std::min(first, m.asked_at);
  return first;
}

void pool::serve() {
  while (!waiters_.empty() && !slots_.spares().empty() && serving()) {
    const waiter& first = waiters_.front();
    const facts f = facts_now();
    const std::vector<member_id>& spares = slots_.spares();
    usable_.clear();
    for (auto spare = spares.begin(); spare != spares.end() && usable_.size() < first.count; ++spare)
      if (member& m = members_[*spare]; f.is_usable(m)) usable_.push_back(&m);
    if (usable_.size() < first.count) {
      // The spares that are kept for this waiter must be released when the time for local handoffs is over. Set a timer
      // for that.
      for (const member_id id : spares)
        if (const member& m = members_[id]; situation_.contested && m.handoffs > 0)
          due_or_wake(m.granted_at + options_.local_handoff_time);
      return;
    }
    action::grant its{first.ticket, slots_.open(), {}, never, {}};
    for (member* const m : usable_) {
      slots_.take(ctx_, its.slot, *m);
      m->rejoined_early = false;
      its.token = std::max(its.token, fencing_token{m->grant, m->handoffs++});
      its.deadline = std::min(its.deadline, m->deadline());
      if (const slot_number* const number = f.number_of(*m)) its.numbers.push_back(number->number);
    }
    act(std::move(its));
    waiters_.pop();
    const auto is_suspect = [](const member* m) { return m->is_suspect(); };
    if (std::any_of(usable_.begin(), usable_.end(), is_suspect)) report(*usable_.front());
  }
}

std::vector<core::entry> pool::entries_of(slot_id id) {
  std::vector<entry> entries;
  if (const slot* s = slots_.find(id); s && s->held)
    for (const member_id each : s->members) {
      const member& m = members_[each];
      entries.push_back({keys_.entry(m.session), m.session, m.grant});
    }
  return entries;
}

void pool::lose(slot_id id, loss_reason reason, failure why) {
  slot* s = slots_.find(id);
  if (!s) return;
  // If the grant was not accepted, other processes take the slot back, although its user may still use it.
  if (session_after_loss(reason) == session_after::protects &&
      std::any_of(s->members.begin(), s->members.end(),
                  [this](member_id each) { return members_[each].acceptance != acceptance_state::not_needed; }))
    reason = loss_reason::not_accepted;
  if (slots_.lose(*s, members_)) act(action::lose{id, reason, std::move(why)});
}

void pool::lose_all(loss_reason reason, const failure& why) {
  if (slots_.in_use() == 0) return;
  slots_.for_each([&](slot_id id, slot& s) {
    if (s.held) lose(id, reason, why);
  });
}

void pool::report(const member& m) {
  action::update news{m.slot, never, false};
  for (const member_id each : slots_.find(m.slot)->members) {
    news.deadline = std::min(news.deadline, members_[each].deadline());
    news.suspect = news.suspect || members_[each].is_suspect();
  }
  act(news);
}

void pool::drop(member& m, loss_reason reason, failure why) {
  node_may_be_gone(m);
  end(m, reason, std::move(why));
}

void pool::end(member& m, loss_reason reason, failure why) {
  if (m.slot != slot_id::none) lose(m.slot, reason, why);
  slots_.drop(m);
  write_.drop(m.id);
  if (m.standing != standing::absent || m.phase == phase::moving) others_.left(m.session);
  m.phase.end();
  const slot_id gives_back = m.gives_back;
  const time_point answer_by = m.lease.deadline();
  ending_member& e = members_.retire(m.id);
  e.until = now() + 2 * options_.ttl;
  e.gives_back = gives_back;
  e.answer_by = answer_by;
  e.why = std::move(why);
  if (!e.why.code) slots_.free_member(ctx_, e.gives_back);
}

bool pool::is_idle_for_too_long(const member& m) { return due_or_wake(m.idle_since + options_.session_idle_timeout); }

/// Whether a session that is not needed can be ended at once. Consul may have ended it already, together with its node,
/// without notifying us. Then holders that this process has never seen may have lost their sessions, too, and may still
/// believe in their slots. If the node can be read, and the session has had an entry, a later read shows whether the
/// node still stands. Otherwise the session is renewed first, and is ended when the answer arrives. A lost session is
/// not renewed any more. A closing pool acquires nothing any more, so it does not need to know.
bool pool::may_retire(member& m) {
  if (closing_.has_begun() || m.lost || (others_.may_read_node() && m.entry_created != 0)) return true;
  if (m.asked_at < m.idle_since + options_.session_idle_timeout) {
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
  const bool collects = members_.creating() != 0;
  for (auto at = members_.begin(); at != members_.end();) {
    member& m = (at++)->second;
    if (!m.is_ready() || m.standing != standing::absent) continue;
    if (m.lost && m.slot != slot_id::none) continue;
    const bool is_over = closing_.has_begun() || m.lost || (!collects && is_idle_for_too_long(m));
    if (is_over && may_retire(m)) drop(m, loss_reason::none);
  }
  gone_.pursue_all(ctx_, view_.now(), view_.current());
  for (auto& [session, e] : members_.ending())
    if (e.gives_back != slot_id::none && due_or_wake(e.answer_by)) slots_.free_member(ctx_, e.gives_back, &e.why);
  for (auto at = members_.expired(ctx_); at != members_.ending().end(); at = members_.expired(ctx_))
    members_.remove(at);
  members_.destroy(ctx_, [](const ending_member&) { return true; });
}

/// While somebody here waits for a slot of another process, and for `options_.watch_makers` after that, the shell
/// watches the makers on this host. If that option is 0, it never does.
void pool::watch_makers() {
  if (options_.watch_makers == duration::zero()) return;
  const bool waits = waits_for_others() && !closing_.has_begun();
  if (waits) {
    maker_watch_.unused_since = never;
  } else if (maker_watch_.unused_since == never) {
    maker_watch_.unused_since = now();
  }
  const bool on = waits || (maker_watch_.on && !closing_.has_begun() &&
                            !due_or_wake(maker_watch_.unused_since + options_.watch_makers));
  if (on != std::exchange(maker_watch_.on, on)) act(action::watch_makers{on});
}

void pool::finish_close() {
  if (!closing_.has_begun()) return;
  if (slots_.in_use() == 0) closing_.nobody_uses_anything(ctx_, options_.give_up_after);
  const bool clean = members_.empty() && members_.ending().empty() && write_.is_idle() && !duty_.owes();
  if (!clean && !closing_.is_due(ctx_)) return;
  lose_all(loss_reason::closed);
  if (slots_.in_use() != 0) {  // the users' time to release them has expired
    slots_.let_go_of_all(ctx_, members_);
    closing_.once_more(ctx_, options_.give_up_after);
    write();
    return retire_sessions();
  }
  // A grant that is owed is no reason to report a failure: another process writes it.
  const bool has_released_all = members_.empty() && members_.ending().empty();
  const failure why = has_released_all ? failure{} : failed(error::timed_out, "sessions are left to expire");
  for (auto& [id, m] : members_) slots_.free_member(ctx_, m.gives_back, &why);
  for (auto& [session, e] : members_.ending()) slots_.free_member(ctx_, e.gives_back, &why);
  closing_.end(ctx_, why);
}

/// Fails the first waiters that want more slots than the limit. Such a waiter must not block the waiters behind it,
/// even if the limit was lowered after it came. Returns false if the view is older than the waiter, so that the limit
/// must be read first.
bool pool::fail_too_wide() {
  while (!waiters_.empty() && waiters_.front().count > limit()) {
    if (view_.as_of() <= waiters_.front().asked) return false;
    act(action::fail{waiters_.front().ticket, too_many(waiters_.front().count)});
    waiters_.pop();
  }
  return true;
}

void pool::fail_waiters(const failure& why) {
  while (!waiters_.empty()) {
    act(action::fail{waiters_.front().ticket, why});
    waiters_.pop();
  }
}

}  // namespace holdfast::protocol

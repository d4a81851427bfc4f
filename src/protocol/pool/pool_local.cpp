// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/base/invariant.hpp"
#include "protocol/pool/pool.hpp"

// The order in which the machines act, the local queue, and the close.

namespace holdfast::protocol {

/// One pass may change what an earlier question in it has asked, for example by sending a request. So there is another
/// pass until one does nothing. Then each timer has been set that the state needs.
void pool::advance() {
  for (std::size_t before = ctx_.actions() + 1; before != ctx_.actions();) {
    before = ctx_.actions();
    advance_once();
  }
}

void pool::advance_once() {
  ctx_.forget_times();
  if (parts_.closing.is_over()) return;
  parts_.application.check(ctx_, !parts_.members.empty() || !parts_.waiters.empty());
  parts_.waiters.expire(ctx_, [this](const waiter& w) { return outage_rule::why_unknown(parts_, w, now()); });
  if (parts_.turns.check(ctx_, parts_.news) && !parts_.closing.has_begun()) parts_.read_everything(ctx_);
  care_.check(ctx_, parts_, outage_rule_, own_grants_);
  observe().check_watches();
  outage_rule_.check(ctx_, parts_, !parts_.waiters.empty() && !parts_.all_in_use());
  taking_.watch_makers(ctx_, parts_);
  serve();
  const std::size_t waiting = parts_.waiters.size();
  writer_.write(ctx_, parts_, taking_);
  if (parts_.waiters.size() != waiting) serve();  // the next waiters, after one was denied or has failed
  own_grants_.accept(ctx_, parts_);               // a slot that was handed on here is accepted for its new user
  const std::size_t sessions = parts_.members.size();
  care_.retire(ctx_, parts_, taking_);
  if (parts_.members.size() != sessions && !parts_.waiters.empty())
    writer_.write(ctx_, parts_, taking_);  // there is room for another session
  if (!parts_.waiters.empty() && parts_.slots.in_use() < limit() &&
      ctx_.ask([&](moment& at) { return life_.is_due(at, parts_.waiters); }) && !outage_rule::awaits_answer(parts_))
    parts_.read.key(ctx_, parts_.keys.lock);
  finish_close();
  last_.calm = !parts_.closing.has_begun() && !parts_.application.is_silent() && !care_.is_any_suspect() &&
               !parts_.has_lost && !own_grants_.is_any_open() && !parts_.write.is_in_doubt() &&
               !parts_.read.failures().on() && !parts_.write.failures().on() && !parts_.members.failures().on() &&
               !parts_.watches.failures().on() &&
               now() >= parts_.watches.everything_seen_at() + facts_now().everything_pause() && !taking_.needs_makers();
  last_.blind = !parts_.situation.contested && !parts_.watches.has_everything();
}

/// An acquire while users of this process hold every slot, others wait here, and no timer has expired. It joins the
/// queue. The first of the queue stays the same, and so does everything else.
void pool::join(event::acquire& e) {
  on(e);
  ctx_.wake_at(parts_.waiters.first_deadline());
  check_invariant("an acquire behind others changes nothing else", [this] { return would_do_nothing(); });
  ctx_.end();
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

void pool::serve() {
  if (parts_.application.is_silent()) return;
  while (!parts_.waiters.empty() && !parts_.slots.spares().empty() && !due_or_wake(serves_until())) {
    const waiter& first = parts_.waiters.front();
    const facts f = facts_now();
    const std::vector<member_id>& spares = parts_.slots.spares();
    usable_.clear();
    for (auto spare = spares.begin(); spare != spares.end() && usable_.size() < first.terms.count; ++spare)
      if (member& m = parts_.members[*spare]; f.is_usable(m)) usable_.push_back(&m);
    if (usable_.size() < first.terms.count) {
      // The spares that are kept for this waiter must be released when the time for local handoffs is over. Set a timer
      // for that.
      for (const member_id id : spares)
        if (const member& m = parts_.members[id]; parts_.situation.contested && m.handoffs > 0)
          due_or_wake(m.granted_at + parts_.options.local_handoff_time);
      return;
    }
    action::grant its{first.ticket, parts_.slots.open(), {}, never, {}};
    bool is_any_suspect = false;
    for (member* const m : usable_) {
      parts_.slots.take(ctx_, its.slot, *m);
      m->rejoined_early = false;
      its.token = std::max(its.token, fencing_token{m->grant, m->handoffs++});
      its.deadline = std::min(its.deadline, m->deadline());
      if (const slot_number* const number = f.number_of(*m)) its.numbers.push_back(number->number);
      is_any_suspect = is_any_suspect || m->is_suspect();
    }
    act(std::move(its));
    parts_.waiters.pop();
    if (is_any_suspect) parts_.slots.report(ctx_, *usable_.front(), parts_.members);
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

void pool::finish_close() {
  if (!parts_.closing.has_begun()) return;
  if (parts_.slots.in_use() == 0) parts_.closing.nobody_uses_anything(ctx_, parts_.options.give_up_after);
  const bool clean =
      parts_.members.empty() && parts_.members.ending().empty() && parts_.write.is_idle() && !parts_.duty.owes();
  if (!clean && !due_or_wake(parts_.closing.deadline())) return;
  parts_.slots.lose_all(ctx_, parts_.members, loss_reason::closed);
  if (parts_.slots.in_use() != 0) {  // the users' time to release them has expired
    parts_.slots.let_go_of_all(ctx_, parts_.members);
    parts_.closing.once_more(ctx_, parts_.options.give_up_after);
    writer_.write(ctx_, parts_, taking_);
    return care_.retire(ctx_, parts_, taking_);
  }
  // A grant that is owed is no reason to report a failure: another process writes it.
  const bool has_released_all = parts_.members.empty() && parts_.members.ending().empty();
  const failure why = has_released_all ? failure{} : failed(error::timed_out, "sessions are left to expire");
  for (auto& [id, m] : parts_.members) parts_.slots.free_member(ctx_, m.gives_back, &why);
  for (auto& [session, e] : parts_.members.ending()) parts_.slots.free_member(ctx_, e.gives_back, &why);
  parts_.closing.end(ctx_, why);
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <holdfast/log_event.hpp>

#include "protocol/session/session.hpp"
#include "sim/support/world_impl.hpp"

namespace holdfast::test {

void world::again(process& p, int user) {
  const bool at_once = is_hasty(p, user) || random_.chance(30);
  duration rest = at_once ? duration(0) : random_.between(0s, options_.rest_max);
  const time_point then = now() + rest;
  if (options_.long_break && then < calm_ && then > faults_end_ - options_.ttl) rest += calm_ - then;
  in(rest, [this, &p, user] { when_running(p, [this, &p, user] { ask(p, user); }); });
}

void world::ask(process& p, int user) {
  if (!p.alive || now() >= last_call_ || user >= p.users) return;
  if (options_.locks != 0) return ask_for_a_lock(p, user);
  event::acquire wish{ticket{++p.last_ticket}};
  // A candidate and a hasty user ask for one slot, without a deadline.
  const bool asks_for_one = options_.election || is_hasty(p, user);
  if (!asks_for_one && random_.chance(20))
    wish.terms.count = static_cast<std::uint32_t>(1 + random_.below(options_.residents != 0 ? 2 : most_slots()));
  if (!asks_for_one && random_.chance(10)) wish.terms.once = true;
  duration patience{};
  if (!asks_for_one && !wish.terms.once && random_.chance(15)) {
    patience = random_.between(0ms, 500ms);
    wish.terms.deadline = p.clock.local(now()) + patience;
  }
  const bool patient = !wish.terms.once && wish.terms.deadline == never;
  const ticket t = wish.ticket;
  say([&] {
    return name(p) + ": acquire " + number(t) + " x" + std::to_string(wish.terms.count) +
           (wish.terms.once ? " once" : "") + (wish.terms.deadline != never ? " with a deadline" : "");
  });
  p.requests[t] = {wish.terms.count, patient, user};
  if (wish.terms.deadline != never) p.requests[t].patience = patience;
  p.requests[t].asked_at = now();
  news_.push_back(now());
  referee_.asked(p.number, t);
  if (random_.chance(faults() ? 15 : 5))
    in(random_.between(0ms, 200ms), [this, &p, t] { when_running(p, [this, &p, t] { cancel(p, t); }); });
  // A deadline in the past means one read, which takes its time.
  if (wish.terms.deadline != never && patience > 0ms)
    in(patience + patience / 20 + 1ms, [this, &p, t, asked = now()] {
      if (p.alive && !p.paused && p.inbox.empty() && p.runs_since <= asked && p.requests.contains(t))
        object(guarantee::answers, name(p) + ": an acquire outlives its deadline");
    });
  deliver(p, wish);
}

void world::cancel(process& p, ticket t) {
  if (!p.requests.contains(t)) return;
  say([&] { return name(p) + ": cancel " + number(t); });
  news_.push_back(now());
  step(p, event::cancel{t});
  if (p.requests.contains(t)) object(guarantee::answers, name(p) + ": a cancelled acquire goes on");
}

void world::release(process& p, slot_id slot, int user) {
  if (referee_.holds(p.number, slot)) {
    say([&] { return name(p) + ": release " + number(slot); });
    ended(p, slot, timeline::end::released);
    referee_.gone(p.number, slot, true);
    p.releasing.emplace(slot, now());
    news_.push_back(now());
    in(options_.ttl + 4s, [this, &p, slot] {
      when_running(p, [this, &p, slot] {
        if (p.releasing.contains(slot)) object(guarantee::answers, "a release was never answered");
      });
    });
    step(p, event::release{slot});
  }
  if (!options_.election) again(p, user);
}

void world::close(process& p) {
  p.closing = true;
  if (!p.watching) deliver(p, event::close{!options_.election && random_.chance(50)});
}

/// A user that has lost a slot acts on it for a while. Until then nobody else is granted the slot, as long as Consul
/// keeps the session, which is for at most two TTLs. There are two exceptions: an operator has taken the slot away, or
/// the pool closes and has waited long enough.
void world::go_on(process& p, const action::lose& lost) {
  const bool is_kept = protects_slot(lost.reason);
  // False if the slot was lost in the step that granted it.
  const bool is_known = p.held_by.contains(lost.slot);
  if (is_kept && is_known && !referee_.excused(now())) {
    const time_point over = p.leases.at(lost.slot) + options_.ttl / 10 + options_.ttl;
    p.bodies[lost.slot] = {p.held_by[lost.slot], truly(p, over)};
    referee_.runs_on(p.number, lost.slot);
  } else {
    referee_.gone(p.number, lost.slot, false);
  }
  p.lost.insert(lost.slot);
  const duration longest = random_.chance(60) ? duration(50ms) : random_.chance(70) ? options_.ttl : 3 * options_.ttl;
  in(random_.between(0ms, longest),
     [this, &p, slot = lost.slot] { when_running(p, [this, &p, slot] { let_go(p, slot); }); });
}

void world::let_go(process& p, slot_id slot) {
  say([&] { return name(p) + ": lets go of " + number(slot); });
  p.locks.erase(slot);
  p.bodies.erase(slot);
  p.lost.erase(slot);
  p.let_go_at = now();
  referee_.has_ended(p.number, slot);
  step(p, event::release{slot});
}

void world::answer(process& p, ticket t) {
  referee_.answered(p.number, t);
  const auto wish = p.requests.find(t);
  if (wish == p.requests.end()) return;
  const int user = wish->second.user;
  p.requests.erase(wish);
  if (options_.election)
    campaign_is_over(p);
  else
    again(p, user);
}

void world::ended(process& p, slot_id slot, timeline::end how) {
  p.leases.erase(slot);
  p.numbers.erase(slot);
  p.held_by.erase(slot);
  p.revoked.erase(slot);
  beliefs_changed_ = true;
  if (told_.picture) told_.picture->ends(name(p), number(slot), now().time_since_epoch(), how);
}

void world::perform(process& p, action::grant& a) {
  ++result_.grants;
  say([&] {
    return name(p) + ": grant " + number(a.ticket) + " slot " + number(a.slot) + " token " + a.token.to_string() +
           (a.numbers.empty() ? "" : " number " + std::to_string(a.numbers.front()));
  });
  const auto wish = p.requests.find(a.ticket);
  if (wish == p.requests.end()) return object(guarantee::answers, "a grant that nobody asked for");
  const process::request asked = wish->second;
  p.requests.erase(wish);
  const time_point deadline = truly(p, a.deadline);
  if (told_.picture) {
    told_.picture->holds(name(p), number(a.slot), now().time_since_epoch(), "token " + a.token.to_string());
    told_.picture->lease(name(p), number(a.slot), deadline.time_since_epoch());
  }
  if (now() < p.distrusts_until)
    object(guarantee::limit, name(p) + " takes a slot though several Consuls answer in turn");
  const auto entries = p.pool->entries_of(a.slot);  // empty if the slot is already lost
  for (const protocol::core::entry& each : entries) p.held_by[a.slot].push_back(each.session);
  referee_.granted(p.number, a.ticket, a.slot, asked.count, a.token, now(), deadline,
                   is_excused(p, a.slot) || is_hidden_from(p));
  p.leases[a.slot] = a.deadline;
  for (const protocol::core::entry& each : entries)
    if (look().record.names(each.session)) p.guards.push_back(each);
  while (p.guards.size() > guards_max_) p.guards.pop_front();
  p.locks[a.slot] = asked.lock;
  if (a.numbers.size() != (options_.numbered ? asked.count : 0))
    object(guarantee::numbers, name(p) + " is granted " + std::to_string(a.numbers.size()) + " numbers");
  for (const std::uint32_t each : a.numbers)
    if (each >= most_slots()) object(guarantee::numbers, name(p) + " has a number above the limit");
  p.numbers[a.slot] = std::move(a.numbers);
  beliefs_changed_ = true;
  look();
  if (now() - withheld_since_ > 1s && now() - p.clear_since > 1s)
    object(guarantee::orders, name(p) + " hands out a slot, though nobody is to be granted");
  if (a.deadline <= p.pool->now()) object(guarantee::losses, "granted with a lease that is over");
  const duration hold = is_hasty(p, asked.user) ? duration(500us)
                        : options_.long_terms   ? random_.between(0ms, options_.hold_max)
                        : random_.chance(80)    ? random_.between(0ms, 60ms)
                        : random_.chance(80)    ? random_.between(0ms, 400ms)
                                                : random_.between(0ms, options_.hold_max);
  const bool one_by_one = options_.one_by_one && now() < last_call_;
  if (options_.one_by_one) p.one_by_one.emplace(a.slot, asked.user);
  const duration longest = std::min<duration>(options_.hold_max * 5, last_call_ - now());
  in(one_by_one ? longest : hold, [this, &p, slot = a.slot, user = asked.user] {
    when_running(p, [this, &p, slot, user] {
      if (!options_.one_by_one || p.one_by_one.erase(slot) != 0) release(p, slot, user);
    });
  });
  if (!options_.election) return;
  campaign_is_over(p);
  proclaim_while(p, a.slot, hold);
}

void world::perform(process& p, action::deny& a) {
  say([&] { return name(p) + ": deny " + number(a.ticket); });
  if (const auto wish = p.requests.find(a.ticket); wish != p.requests.end()) {
    if (wish->second.patient) object(guarantee::answers, "a patient waiter was denied");
    if (options_.locks != 0) check_denied(p, wish->second);
  }
  answer(p, a.ticket);
}

void world::perform(process& p, action::fail& a) {
  say([&] { return name(p) + ": fail " + number(a.ticket) + " " + a.error.code.message(); });
  // With little time, there may be no answer yet. An acquire takes a few round trips until it waits in the queue.
  const auto asked = p.requests.find(a.ticket);
  // The same is true if the process did not run for a part of that time.
  const bool hurries = a.error.code == error::timed_out && asked != p.requests.end() &&
                       asked->second.patience != duration::max() &&
                       (asked->second.patience < 10 * latency_max(p) + 20ms || p.runs_since > asked->second.asked_at);
  const bool cancelled = a.error.code == boost::system::errc::operation_canceled;
  const bool nothing_wrong = options_.request_faults == 0 && !any(&accident::fails_acquires);
  const bool too_many = options_.administrators != 0 && a.error.code == error::too_many_slots;
  // A process that was paused waits a moment for answers that it has not read yet. If it is paused in that moment, too,
  // it has waited long enough.
  const duration moment = give_up_after() / 10;
  const bool away_twice =
      a.error.code == error::timed_out && p.ran_for < moment && now() - p.runs_since < moment && !calm();
  // The process registers the node once, and an operator may have removed it again.
  const bool deregistered = options_.deregistrations && a.error.code == error::missing_node && !calm();
  // The set does not ask for a lock that its own lost session may still have, until that session ends. The session
  // lasts as long as its users go on.
  const bool keeps_itself = options_.locks != 0 && !p.lost.empty() && a.error.code == error::timed_out;
  // A lock that was shown wrong answers takes no slots for a while.
  const bool distrusts = a.error.code == error::not_consul && p.hidden_until != time_point() &&
                         now() < p.hidden_until + std::max<duration>(options_.ttl, 10s) + latency_max(p);
  if (!cancelled && !hurries && !distrusts && !too_many && !keeps_itself && !away_twice && !deregistered &&
      !p.closing && (calm() || nothing_wrong))
    object(guarantee::answers, "an acquire failed though nothing was wrong: " + a.error.details.to_string());
  answer(p, a.ticket);
}

void world::perform(process& p, action::released& a) {
  say([&] { return name(p) + ": released " + number(a.slot) + " " + (a.error ? a.error->details.to_string() : ""); });
  p.locks.erase(a.slot);
  const auto asked = p.releasing.find(a.slot);
  if (asked == p.releasing.end())
    return object(guarantee::answers, "a release was answered twice, or nobody asked for it");
  const time_point since = std::exchange(asked->second, time_point());
  p.releasing.erase(asked);
  // The bound is four round trips and pauses, however fast others change the record. A pool that closes may have more
  // to do.
  if (calm() && since >= calm_ && options_.locks == 0 && !p.closing && options_.administrators == 0 &&
      now() - since > 300ms + 12 * latency_max(p))
    object(guarantee::answers, name(p) + ": a release takes long");
  if (a.error && calm() && !options_.operators) object(guarantee::answers, "a release failed though nothing was wrong");
}

void world::perform(process& p, action::lose& a) {
  result_.losses += a.reason != loss_reason::closed;
  say([&] { return name(p) + ": lose " + number(a.slot) + " " + std::string(to_string(a.reason)); });
  const bool cause =
      options_.operators ||
      (!calm() && (options_.administrators != 0 || options_.request_faults != 0 || any(&accident::loses_slots)));
  if (a.reason != loss_reason::closed && !cause)
    object(guarantee::losses, "a slot was lost without a cause: " + std::string(to_string(a.reason)));
  const auto lives = [this](const std::string& session) {
    return consul_.has_session(session) && look().find(session);
  };
  const auto held_by = p.held_by.find(a.slot);
  if (a.reason == loss_reason::session_invalidated && options_.locks == 0 && !is_excused() && !is_hidden_from(p) &&
      held_by != p.held_by.end() && std::all_of(held_by->second.begin(), held_by->second.end(), lives))
    object(guarantee::losses, name(p) + " takes its session for ended, which lives");
  if (options_.locks != 0 && a.reason == loss_reason::removed && !options_.operators)
    object(guarantee::losses, name(p) + " believes that its guard was overwritten");
  go_on(p, a);
  ended(p, a.slot, timeline::end::lost);
}

void world::perform(process& p, action::revoke& a) {
  say([&] { return name(p) + ": slot " + number(a.slot) + " is wanted"; });
  if (!referee_.holds(p.number, a.slot)) object(guarantee::orders, "a slot is wanted that nobody holds");
  if (!p.revoked.insert(a.slot).second) object(guarantee::orders, "a wish is told twice");
}

void world::perform(process& p, action::update& a) {
  if (const auto its = p.leases.find(a.slot); its != p.leases.end()) {
    if (its->second <= p.pool->now() && p.pool->now() < a.deadline)
      object(guarantee::losses, "a lease that was over goes on");
    its->second = a.deadline;
  }
  beliefs_changed_ = true;
  const time_point deadline = truly(p, a.deadline);
  if (told_.picture) told_.picture->lease(name(p), number(a.slot), deadline.time_since_epoch());
  referee_.updated(p.number, a.slot, deadline);
}

void world::perform(process& p, action::closed& a) {
  say([&] { return name(p) + ": closed " + a.error.details.to_string(); });
  if (!p.closing || p.closed) object(guarantee::answers, "closed twice, or without being asked to");
  p.closed = a;
  if (options_.election) in(0s, [this, &p] { retire(p); });
  // Before the calm part, a restored snapshot may have brought back a session that had ended. Also, a pool asks to
  // destroy a session for at most two TTLs, and a change of leader lets the TTL start anew.
  if (a.error.code || !calm()) return;
  for (const std::string& session : p.sessions)
    if (consul_.has_session(session)) object(guarantee::leaks, name(p) + " has left its session " + session);
}

void world::perform(process& p, action::note& a) {
  if (a.kind == log_kind::answers_contradict && a.cause.find("several Consuls") != std::string::npos)
    p.distrusts_until = now() + options_.ttl * 8 / 10;  // its clock may be fast
  say([&] {
    return name(p) + ": note: " + std::string(to_string(a.kind)) + " " + a.key + " " + a.session + " " + a.cause;
  });
}

}  // namespace holdfast::test

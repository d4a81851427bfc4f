// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>

#include "protocol/base/invariant.hpp"
#include "protocol/broker/broker_pool.hpp"
#include "protocol/core/sign_of_life.hpp"

// The order in which the parts act, the seats and their users, and the close.

namespace holdfast::protocol {

/// One pass may change what an earlier question in it has asked. So there is another pass until one does nothing. Then
/// each timer has been set that the state needs.
void broker_pool::advance() {
  for (std::size_t before = ctx_.actions() + 1; before != ctx_.actions();) {
    before = ctx_.actions();
    advance_once();
  }
}

void broker_pool::advance_once() {
  ctx_.forget_times();
  if (closing_.is_over()) return;
  application_.check(ctx_, !seats_.empty() || !waiters_.empty());
  if (application_.is_silent()) waiters_.deny_tries(ctx_);
  waiters_.expire(ctx_, [this](const waiter& w) { return why_unknown(w); });
  check_seats();
  check_request();
  fail_waiters();
  serve();
  give_back();
  search();
  listen();
  finish_close();
}

void broker_pool::check_seats() {
  for (auto at = seats_.begin(); at != seats_.end();) {
    seat& s = at->second;
    ++at;  // `check` may remove the seat
    check(s);
  }
}

void broker_pool::check(seat& s) {
  const time_point overdue_at = s.overdue_at(options_.give_up_after);
  if (overdue_at != never && ctx_.due_or_wake(overdue_at)) {
    const bool was_asking = s.is(seat::phase::declaring);
    failure why = failed(error::timed_out, "the broker has not answered in time");
    if (was_asking) outage_.failed(why, now(), ctx_.random(), s.asked_at());
    return drop(s, std::move(why));
  }
  if (check_belief(s)) s.pursue(ctx_, blocked_, !application_.is_silent());
}

/// Returns false if the seat is gone. An application that hangs would never release it.
bool broker_pool::check_belief(seat& s) {
  if (s.user == slot_id::none || s.is(seat::phase::lost)) return true;
  if (ctx_.due_or_wake(s.deadline())) {
    if (!application_.is_silent()) {
      lose(s, loss_reason::lease_expired, failed(error::timed_out, "the slot was not verified in time"));
      return true;
    }
    lose(s, loss_reason::application_silent, application_.why_silent());
    drop(s, application_.why_silent());
    return false;
  }
  if (!s.is(seat::phase::held) || !ctx_.due_or_wake(s.suspect_at())) return true;
  s.suspect();
  report(s);
  return true;
}

/// A probe, or a request to create the semaphore, that is not answered.
void broker_pool::check_request() {
  if (!search_.has_request() || !ctx_.due_or_wake(search_.asked_at() + options_.give_up_after)) return;
  request_failed(failed(error::timed_out, "the broker has not answered in time"), search_.asked_at());
}

std::optional<failure> broker_pool::why_unavailable() const {
  if (!outage_.on() || is_final(outage_.last().code)) return {};
  return outage_.last();
}

/// Why it is not known at the deadline of `w` whether there was a slot for it.
std::optional<failure> broker_pool::why_unknown(const waiter& w) const {
  if (std::optional<failure> why = why_unavailable()) return why;
  time_point asked = search_.has_request() ? search_.asked_at() : never;
  for (const auto& [number, s] : seats_)
    if (s.is(seat::phase::declaring)) asked = std::min(asked, s.asked_at());
  if (asked == never || !sign_of_life::is_unanswered(w, asked, now())) return {};
  return failed(error::timed_out, "the broker had not answered by the deadline");
}

/// During an outage, an acquire fails after `give_up_after`, unless this process has a connection that works.
void broker_pool::fail_waiters() {
  if (!outage_.on()) return;
  const bool has_connection = std::any_of(seats_.begin(), seats_.end(), [](const auto& each) {
    return each.second.is(seat::phase::held) || each.second.is(seat::phase::cleansing);
  });
  if (!has_connection) waiters_.fail_since(ctx_, outage_.since(), options_.give_up_after, outage_.last());
}

/// Serves the queue after an acquire or a release. Returns true if nothing else has to be done. This is so if users
/// have all seats, and others wait in any case: then neither the search nor a seat depends on how many wait.
bool broker_pool::serve_only() {
  if (now() >= ctx_.wake() || closing_.has_begun() || application_.is_silent() || outage_.on() ||
      hint_.hint != hint_id::none)
    return false;
  if (!search_.is(slot_search::phase::waiting) && !search_.is(slot_search::phase::probing)) return false;
  serve();
  const bool all_wait = !waiters_.empty() && waiters_.patient() == waiters_.size();
  const bool all_used =
      std::all_of(seats_.begin(), seats_.end(), [](const auto& each) { return each.second.user != slot_id::none; });
  if (!all_wait || !all_used || seats_.empty()) return false;
  ctx_.wake_at(waiters_.first_deadline());
  check_invariant("nothing but the queue was to be served", [this] { return would_do_nothing(); });
  return true;
}

/// Whether `advance` would do nothing; for the invariant above.
bool broker_pool::would_do_nothing() {
  const time_point before = ctx_.wake();
  const std::size_t actions = ctx_.actions();
  advance();
  return ctx_.forget_times(before) >= before && ctx_.actions() == actions;
}

void broker_pool::serve() {
  if (application_.is_silent()) return;
  for (auto& [number, s] : seats_) {
    if (waiters_.empty()) return;
    if (!s.is_usable(now())) continue;
    const auto [id, its] = slots_.open();
    *its = {slot::use::held, number};
    ++in_use_;
    s.user = id;
    ctx_.act(action::grant{waiters_.front().ticket, id, {0, s.handoffs}, s.deadline(), {number}});
    waiters_.pop();
  }
}

/// Vacates the seats that no user holds or wants. A seat without a token is kept until its wait is over, even if nobody
/// wants it. Then it is vacated with a token, and its next holder does not have to wait.
void broker_pool::give_back() {
  for (auto& [number, s] : seats_) {
    if (s.user != slot_id::none) continue;
    const bool is_idle = s.is(seat::phase::held) && (waiters_.empty() || !s.exists() || application_.is_silent());
    const bool is_useless = s.is(seat::phase::cleansing) && (closing_.has_begun() || !s.exists());
    if (!is_idle && !is_useless) continue;
    s.vacate(ctx_);
    s.pursue(ctx_, blocked_, !application_.is_silent());
  }
}

/// Whether a seat whose user has released it goes to the next user here.
bool broker_pool::may_hand_on(const seat& s) const {
  return !waiters_.empty() && !s.revoked && s.is_usable(now()) && now() < s.held_since() + options_.local_handoff_time;
}

void broker_pool::lose(seat& s, loss_reason reason, failure why) {
  slots_.find(s.user)->state = slot::use::lost;
  s.lose();
  ctx_.act(action::lose{s.user, reason, std::move(why)});
}

void broker_pool::report(const seat& s) { ctx_.act(action::update{s.user, s.deadline(), s.is(seat::phase::suspect)}); }

/// The shell keeps a release by the index of its slot. So no other slot gets this index before the answer.
void broker_pool::answer_release(seat& s, failure why) {
  const slot_id id = std::exchange(s.releases, slot_id::none);
  if (id == slot_id::none) return;
  slots_.close(id);
  ctx_.act(action::released{id, why.code ? std::optional(std::move(why)) : std::nullopt});
}

void broker_pool::remove(seat& s) {
  s.end();
  seats_.erase(s.number());
}

/// Ends the connection of the seat. The broker then deletes B, and F has no token of ours.
void broker_pool::drop(seat& s, failure why) {
  settle_hint(s.hint, false);
  answer_release(s, std::move(why));
  ctx_.act(action::drop{s.id()});
  remove(s);
}

void broker_pool::finish_close() {
  if (!closing_.has_begun()) return;
  if (in_use_ == 0) closing_.nobody_uses_anything(ctx_, options_.give_up_after);
  const bool clean = seats_.empty() && in_use_ == 0;
  if (!clean && !ctx_.due_or_wake(closing_.deadline())) return;
  bool stuck = false;
  while (!seats_.empty()) {
    seat& s = seats_.begin()->second;
    if (s.user != slot_id::none && !s.is(seat::phase::lost)) lose(s, loss_reason::closed);
    stuck = stuck || s.releases != slot_id::none;
    drop(s, failed(error::timed_out, "the semaphore was closed before the broker answered"));
  }
  search_.rest();
  closing_.end(ctx_, stuck ? failed(error::timed_out, "slots are left to the end of their connections") : failure{});
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/broker_pool.hpp"

#include <algorithm>
#include <utility>

// The events.

namespace holdfast::protocol {

void broker_pool::step(broker_event&& e, time_point now, broker_actions& out) {
  ctx_.begin(now, out);
  const bool is_of_a_user = std::holds_alternative<event::acquire>(e) || std::holds_alternative<event::release>(e);
  std::visit([this](auto& concrete) { on(concrete); }, e);
  if (!is_of_a_user || !serve_only()) advance();
  ctx_.end();
}

seat* broker_pool::find_number(std::uint32_t number) {
  const auto at = seats_.find(number);
  return at == seats_.end() ? nullptr : &at->second;
}

seat* broker_pool::find(seat_id id) {
  seat* const s = find_number(number_of(id));
  return s && s->id() == id ? s : nullptr;
}

void broker_pool::on(event::acquire& e) {
  auto& [count, once, deadline] = e.terms;
  if (closing_.has_begun()) return ctx_.act(action::fail{e.ticket, failed(error::closed, "the semaphore is closed")});
  if (count != 1)
    return ctx_.act(action::fail{e.ticket, failed(error::too_many_slots, "an acquire can only ask for one slot")});
  if (waiters_.size() >= options_.waiters_max)
    return ctx_.act(action::fail{e.ticket, failed(error::too_many_waiters, "the local queue is full")});
  if (deadline <= now()) {  // no time to wait, as with try_acquire_for(0): one attempt
    once = true;
    deadline = never;
  }
  // An acquire that does not wait does not overtake the local waiters.
  if (once && waiters_.patient() != 0) return end_without_slot(ctx_, e.ticket, why_unavailable());
  if (waiters_.empty()) outage_.retry_now();  // failures from before this acquire do not delay it
  waiters_.push({e.ticket, e.terms, now(), ctx_.last_request(), 0});
}

void broker_pool::on(event::cancel& e) {
  if (waiters_.remove(e.ticket))
    ctx_.act(action::fail{e.ticket,
                          {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void broker_pool::on(event::release& e) {
  slot* const its = slots_.find(e.slot);
  if (!its || its->state == slot::use::none) return;
  const bool was_lost = std::exchange(its->state, slot::use::none) == slot::use::lost;
  --in_use_;
  seat* const s = find_number(its->number);
  const bool has_seat = s && s->user == e.slot;  // otherwise its connection has ended
  if (was_lost || !has_seat) slots_.close(e.slot);
  if (!has_seat) return;
  s->user = slot_id::none;
  if (!was_lost) s->releases = e.slot;
  if (!was_lost && may_hand_on(*s)) {
    ++s->handoffs;
    return answer_release(*s);
  }
  s->vacate(ctx_);
}

void broker_pool::on(event::close& e) {
  closing_.begin();
  waiters_.fail_all(ctx_, failed(error::closed, "the semaphore was closed"));
  if (e.lose_slots) {
    for (auto& [number, s] : seats_)
      if (s.user != slot_id::none && !s.is(seat::phase::lost)) lose(s, loss_reason::closed);
    closing_.within(ctx_, options_.give_up_after);
  }
  if (e.at_once) closing_.begin_at_once(ctx_);
}

void broker_pool::on(event::probed& e) {
  if (!search_.awaits(e.id)) return;
  if (e.error.code) return request_failed(std::move(e.error), search_.asked_at());
  outage_.over();
  search_.probed(ctx_, e, ours(), options_);
  if (search_.count() == 0) return no_semaphore();
  complete_creation(e);
}

/// There are fewer slots than `create_with`, and no more. Perhaps a creation has died in the middle. The link finds out
/// whether that is so. Nobody waits for its answer.
void broker_pool::complete_creation(const event::probed& e) {
  const bool is_last_known = !e.slots.empty() && !e.slots.back().exists;
  if (blocked_ || !is_last_known || search_.count() >= options_.create_with) return;
  if (std::exchange(has_completed_, true)) return;
  ctx_.act(action::create{ctx_.new_request(), options_.create_with});
}

void broker_pool::on(event::created& e) {
  if (!search_.awaits(e.id)) return;
  if (e.error.code) return request_failed(std::move(e.error), search_.asked_at());
  outage_.over();
  search_.created();
}

/// A probe, or a request to create the semaphore, has failed.
void broker_pool::request_failed(failure why, time_point asked_at) {
  search_.forget_request();
  if (is_final(why.code)) waiters_.fail_all(ctx_, why);
  outage_.failed(std::move(why), now(), ctx_.random(), asked_at);
}

void broker_pool::no_semaphore() {
  if (waiters_.empty()) return;
  if (options_.create_with != 0) return search_.create(ctx_, options_.create_with);
  waiters_.fail_all(ctx_, failed(error::no_semaphore, "there is no semaphore of this name"));
}

void broker_pool::on(event::seized& e) {
  seat* const s = find(e.seat);
  if (!s || !s->awaits(e.id)) return;
  if (e.outcome == event::seizure::failed) {
    const time_point asked_at = s->asked_at();
    if (is_final(e.error.code)) waiters_.fail_all(ctx_, e.error);
    drop(*s);
    return outage_.failed(std::move(e.error), now(), ctx_.random(), asked_at);
  }
  outage_.over();
  settle_hint(s->hint, true);
  const std::uint32_t number = s->number();
  if (e.outcome != event::seizure::no_such_slot) search_.saw(number);
  if (e.outcome != event::seizure::locked) return won(*s, e);
  const bool raced = s->raced;
  remove(*s);
  const auto waiting = static_cast<unsigned>(std::max<std::size_t>(waiters_.size(), 1));
  if (raced) search_.lost_race(ctx_, lost_races_max * waiting, options_);
}

/// B is ours.
void broker_pool::won(seat& s, const event::seized& e) {
  s.seized(ctx_, e);
  if (s.exists()) {
    search_.had(s.number());
    knows_lease_.resize(std::max<std::size_t>(knows_lease_.size(), s.number() + 1));
    knows_lease_[s.number()] = true;
    return;
  }
  search_.saw_none(s.number());
  if (s.number() == 1 && blocked_) no_semaphore();  // otherwise a probe finds that out
}

void broker_pool::on(event::verified& e) {
  seat* const s = find(e.seat);
  if (!s || !s->awaits(e.id)) return;
  const bool has_user = s->user != slot_id::none && !s->is(seat::phase::lost);
  // The process may have stood still, so that nobody has noticed the end of the lease.
  if (has_user && now() >= s->deadline()) lose(*s, loss_reason::lease_expired);
  if (e.outcome == event::verification::gone) {
    if (has_user && !s->is(seat::phase::lost)) lose(*s, loss_reason::removed);
    return drop(*s);
  }
  // Nobody loses anything by the end of a seat without a user. To repeat the verification could go on for ever.
  if (e.outcome == event::verification::failed && s->user == slot_id::none && !s->is(seat::phase::vacating))
    return drop(*s, std::move(e.error));
  s->verified(ctx_, e);
  if (!has_user || s->is(seat::phase::lost) || e.outcome == event::verification::failed) return;
  report(*s);
  if (!s->exists() && !std::exchange(s->revoked, true)) ctx_.act(action::revoke{s->user});
}

void broker_pool::on(event::vacated& e) {
  seat* const s = find(e.seat);
  if (!s || !s->awaits(e.id)) return;
  if (e.error.code) return drop(*s, std::move(e.error));
  answer_release(*s);
  if (!waiters_.empty() && s->exists()) search_.yielded(s->number(), now() + options_.yield_time);
  remove(*s);
}

void broker_pool::on(event::hinted& e) {
  settle_hint(hint_.hint, false);  // there is one at a time; a new one means that the link has begun anew
  hint_ = e;
}

void broker_pool::on(event::connection_ended& e) {
  seat* const s = find(e.seat);
  if (!s) return;
  const bool was_asking = s->is(seat::phase::declaring);
  const time_point asked_at = s->asked_at();
  settle_hint(s->hint, false);
  const bool by_us = e.error.code == error::closed;  // the client was closed
  if (s->user != slot_id::none && !s->is(seat::phase::lost))
    lose(*s, by_us ? loss_reason::closed : loss_reason::session_invalidated, e.error);
  answer_release(*s, e.error);
  remove(*s);
  if (was_asking) outage_.failed(std::move(e.error), now(), ctx_.random(), asked_at);
}

void broker_pool::on(event::blocked& e) {
  blocked_ = e.on;
  if (blocked_) search_.forget_request();  // it would hang
}

/// The release would hang until the alarm is over, and B would stay. In that time, the broker does not notice the death
/// of this host. It notices the end of the connection.
void broker_pool::on(event::seat_blocked& e) {
  seat* const s = find(e.seat);
  if (s && s->is(seat::phase::vacating))
    drop(*s,
         failed(error::connection_lost, "the broker has an alarm, so the slot is left to the end of its connection"));
}

}  // namespace holdfast::protocol

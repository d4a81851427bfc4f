// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>

#include "protocol/broker/broker_pool.hpp"

// Which slots this process asks for.

namespace holdfast::protocol {

void broker_pool::search() {
  if (waiters_.empty()) {
    search_.rest();
    return settle_hint(hint_.hint, false);
  }
  if (outage_.on() && !ctx_.due_or_wake(outage_.retry_at())) return;
  if (search_.is(slot_search::phase::resting)) search_.begin(true);
  if (search_.is(slot_search::phase::waiting) && ctx_.due_or_wake(search_.poll_at())) search_.begin(false);
  attempt();
  deny_tries();
  if (search_.is(slot_search::phase::waiting)) ctx_.wake_at(search_.poll_at());  // the round may have ended just now
}

/// Asks for as many slots at once as there are waiters without an attempt.
void broker_pool::attempt() {
  while (try_hint()) continue;
  while (wanted() != 0) {
    if (const auto next = search_.choose(ctx_, ours())) {
      open(*next, hint_id::none);
      continue;
    }
    switch (search_.current()) {
      case slot_search::phase::asking:
        if (!blocked_) return search_.probe(ctx_);
        search_.guess();
        continue;
      case slot_search::phase::choosing:
        search_.exhausted(ctx_, options_);
        continue;
      case slot_search::phase::resting:
      case slot_search::phase::probing:
      case slot_search::phase::waiting:
        return;
    }
  }
  // So many slots are being cleansed that no other is tried.
  if (attempts() == 0 && (search_.is(slot_search::phase::asking) || search_.is(slot_search::phase::choosing)))
    search_.found_none(ctx_, ctx_.last_request() + 1, options_);
}

/// Tries the slot that a hint has named. Its B may be ours still, if it was this process that gave the hint.
bool broker_pool::try_hint() {
  if (hint_.hint == hint_id::none || attempts() >= waiters_.size()) return false;
  if (hint_.number == 0 || hint_.number > slot_number_max) {
    settle_hint(hint_.hint, true);
    return false;
  }
  if (const seat* const s = find_number(hint_.number)) {
    if (!s->is(seat::phase::vacating)) settle_hint(hint_.hint, true);
    return false;
  }
  open({hint_.number, false}, std::exchange(hint_.hint, hint_id::none));
  return true;
}

void broker_pool::open(slot_search::choice c, hint_id hint) {
  seat& s = seats_.emplace(c.number, seat(make_seat_id(++generation_, c.number), options_)).first->second;
  s.hint = hint;
  s.raced = c.raced;
  s.seize(ctx_, c.number >= knows_lease_.size() || !knows_lease_[c.number]);
}

void broker_pool::settle_hint(hint_id& hint, bool used) {
  if (hint != hint_id::none) ctx_.act(action::settle_hint{std::exchange(hint, hint_id::none), used});
}

/// Denies the acquires that do not wait, and for which no slot was found. The first acquires may still be served by
/// pending requests.
void broker_pool::deny_tries() {
  if (!search_.is(slot_search::phase::waiting)) return;
  std::size_t served = attempts() + unverified();
  std::vector<ticket> denied;
  bool is_left = false;
  waiters_.for_each([&](const waiter& w) {
    if (!w.terms.once) return false;
    if (served != 0)
      --served;
    else if (w.asked < search_.sought())
      denied.push_back(w.ticket);
    else
      is_left = true;
    return true;
  });
  waiters_.deny_all(ctx_, denied);
  if (!is_left) return;
  search_.begin(false);
  attempt();
}

void broker_pool::listen() {
  const bool off = waiters_.empty() || application_.is_silent();
  const bool on = !off && search_.is(slot_search::phase::waiting) && waiters_.patient() != 0;
  if (listens_ ? !off : !on) return;
  listens_ = !listens_;
  ctx_.act(action::listen{listens_});
}

/// How many requests are pending that may serve a waiter.
std::size_t broker_pool::attempts() const {
  return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& each) {
    const seat& s = each.second;
    return s.is(seat::phase::declaring) || s.is(seat::phase::purging);
  }));
}

/// How many seats are ours without a user, and must be verified before a user may have them. Waiters do not rely on
/// them, because the verification may get no answer. A seat that needs no verification has been handed to a waiter.
std::size_t broker_pool::unverified() const {
  return static_cast<std::size_t>(std::count_if(seats_.begin(), seats_.end(), [](const auto& each) {
    return each.second.is(seat::phase::held) && each.second.user == slot_id::none;
  }));
}

std::size_t broker_pool::cleansing() const {
  return static_cast<std::size_t>(std::count_if(
      seats_.begin(), seats_.end(), [](const auto& each) { return each.second.is(seat::phase::cleansing); }));
}

/// How many more slots to ask for.
std::size_t broker_pool::wanted() const {
  const std::size_t asked = attempts();
  if (application_.is_silent()) return 0;
  if (asked >= waiters_.size() || cleansing() >= waiters_.size() + spare_cleansings) return 0;
  // Without a connection, one attempt is enough.
  return outage_.on() ? (asked == 0 ? 1 : 0) : waiters_.size() - asked;
}

std::vector<bool> broker_pool::ours() const {
  std::vector<bool> all(seats_.empty() ? 0 : seats_.rbegin()->first + 1);
  for (const auto& [number, s] : seats_) all[number] = true;
  return all;
}

}  // namespace holdfast::protocol

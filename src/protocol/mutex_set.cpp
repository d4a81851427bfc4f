// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace holdfast::protocol {

mutex_set::mutex_set(mutex_set_options options, std::uint64_t seed)
    : core(seed), options_(std::move(options)), sessions_(options_) {}

void mutex_set::step(core_event&& e, time_point now, core_actions& out) {
  ctx_.begin(now, out);
  // If the lease has expired, an event about the session comes too late, so the lease is checked first. A release is
  // taken before the check, because it must be answered, and the release of a lost slot is not.
  if (!closing_.is_over() && !std::holds_alternative<event::release>(e)) check_lease();
  std::visit(
      [this]<class Event>(Event& concrete) {
        if constexpr (!is_of_a_pool<Event>) on(concrete);
      },
      e);
  advance();
  ctx_.end();
}

void mutex_set::on(event::acquire& e) {
  if (closing_.has_begun()) return act(action::fail{e.ticket, failed(error::closed, "the mutex set is closed")});
  if (asking_.size() >= options_.waiters_max || locks_.size() + releases_.size() >= slots_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "too many ask at once")});
  auto at = locks_.lower_bound(e.name);
  const bool is_new = at == locks_.end() || at->first != e.name;
  if (is_new) at = locks_.emplace_hint(at, e.name, lock());
  lock& l = at->second;
  if (l.asked || l.standing == standing::held || l.standing == standing::lost) return act(action::deny{e.ticket});
  // If no other caller waits, this one does not wait for the backoff of earlier failures.
  if (asking_.empty()) {
    write_outage_.retry_now();
    sessions_.retry_now();  // but not `lost_by_watch_`: each caller would create a session and lose it
  }
  l.asked = e.ticket;
  l.came = ctx_.now();
  l.asked_after = ctx_.last_request();
  asking_.emplace(e.ticket, &*at);
  if (is_new) want(*at);
}

void mutex_set::on(event::cancel& e) {
  const auto at = asking_.find(e.ticket);
  if (at == asking_.end()) return;
  stop_asking(*at->second);
  act(action::fail{e.ticket,
                   {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void mutex_set::on(event::release& e) {
  slot* s = slots_.find(e.slot);
  if (!s || !s->place) return;
  lock& l = s->place->second;
  if (l.standing == standing::lost) return let_go(e.slot);
  l.standing = standing::leaving;
  leaving_.push_back(std::exchange(s->place, nullptr));
  s->releasing = true;
  releases_.emplace_back(ctx_.now(), e.slot);
  --held_;
}

void mutex_set::on(event::close& e) {
  closing_.begin();
  if (e.at_once) closing_.begin_at_once(ctx_);
  fail_waiters(failed(error::closed, "the mutex set was closed"));
  if (!e.lose_slots) return;
  for (auto& [name, l] : locks_) {
    if (l.standing != standing::held) continue;
    l.standing = standing::lost;
    act(action::lose{l.slot, loss_reason::closed, {}, name});
  }
  lost_ += std::exchange(held_, 0);
  closing_.within(ctx_, options_.give_up_after);
}

void mutex_set::on(event::session_created& e) {
  const creation was = sessions_.answered(ctx_, e, closing_.is_over());
  if (was == creation::refused) fail_waiters(e.error);
  if (was == creation::done) idle_since_ = ctx_.now();
}

void mutex_set::on(event::node_registered& e) {
  for (const member_id each : sessions_.registered(ctx_, e)) {
    event::session_created failed{each, {}, e.error};
    on(failed);
  }
}

void mutex_set::on(event::session_renewed& e) {
  if (!session() || session()->id != e.member) return;
  const time_point deadline = session()->lease.deadline();
  if (!session()->renewed(ctx_, e)) {
    if (!session()->open) return drop_session(loss_reason::session_invalidated);
    return watch_.read_at_once(ctx_);
  }
  if (e.outcome == event::renewal::renewed) session()->copies_due = !session()->refused.empty();
  if (session()->lease.deadline() != deadline) report();
}

void mutex_set::on(event::session_destroyed& e) {
  const auto at = sessions_.destroyed(ctx_, e);
  if (at != sessions_.ending().end()) has_ended(at);
}

void mutex_set::on(event::key_watched& e) {
  if (!watch_.take(e.id)) return;
  if (e.error.code) {
    if (!watch_.failures().on()) {
      act(action::note{"watch of " + session_key() + " failed: " + e.error.details.to_string()});
    }
    if (is_final(e.error.code)) fail_waiters(e.error);
    return watch_.failed(ctx_, std::move(e.error));
  }
  if (watch_.failures().on()) act(action::note{"watch of " + session_key() + " works again"});
  watch_.works();
  lost_by_watch_.over();
  if (!e.pair || e.pair->session != session()->session) return drop_session(loss_reason::session_invalidated);
  watch_.has_seen(e.pair->modify_index);
}

void mutex_set::advance() {
  ctx_.forget_times();
  if (closing_.is_over()) return;
  check_lease();
  check_watch();
  check_outage();
  check_releases();
  for (auto at = sessions_.expired(ctx_); at != sessions_.ending().end(); at = sessions_.expired(ctx_)) has_ended(at);
  write();
  retire_sessions();
  finish_close();
}

void mutex_set::check_lease() {
  if (!session() || !session()->is_created()) return;
  if (session()->has_expired(ctx_)) return drop_session(loss_reason::lease_expired, session()->why_expired());
  if (session()->keep_alive(ctx_, watch_.failures().on())) report();
}

void mutex_set::check_watch() {
  if (!session() || !session()->open) return;
  if (held_ != 0 && !serving()) {
    lost_by_watch_.failed(watch_.failures().last(), ctx_.now(), ctx_.random());
    return drop_session(loss_reason::watch_failed, watch_.failures().last());
  }
  if (watch_.is_due(ctx_)) watch_.start(ctx_, session_key(), options_.watch_wait);
}

/// False if the watch has failed for too long. Then Consul is not asked for locks, because they would be lost at once.
bool mutex_set::serving() {
  return !watch_.failures().on() || !due_or_wake(watch_.failures().since() + options_.outage_grace);
}

void mutex_set::check_outage() {
  const auto fail_those_who_came_before = [this](time_point since, const failure& why) {
    while (!asking_.empty() &&
           due_or_wake(std::max(since, asking_.begin()->second->second.came) + options_.give_up_after))
      fail_first(why);
  };
  const outage* const all[] = {&write_outage_, &sessions_.failures(), &lost_by_watch_, &watch_.failures()};
  for (const outage* o : all)
    if (o->on()) fail_those_who_came_before(o->since(), o->last());
  const time_point asked = txn_ != 0 ? sent_at_ : session() && !session()->is_created() ? session()->asked_at : never;
  if (asked == never || asking_.empty())
    overdue_.over();
  else if (overdue_.check(ctx_, std::max(asked, asking_.begin()->second->second.came) + options_.give_up_after,
                          options_.give_up_after / 10))
    fail_those_who_came_before(asked, failed(error::timed_out, "Consul does not answer"));
  fail_blocked();
}

void mutex_set::fail_blocked() {
  for (auto& [session, d] : sessions_.ending())
    while (!d.blocked.empty()) {
      const auto [asked, first] = *d.blocked.begin();
      if (!due_or_wake(std::max(d.since, first->second.came) + options_.give_up_after)) break;
      act(action::fail{asked, failed(error::timed_out, "a lost session has not ended yet")});
      stop_asking(*first);
    }
}

mutex_set::ending* mutex_set::blocker_of(std::string_view name) {
  for (auto& [session, d] : sessions_.ending())
    if (d.names.contains(name)) return &d;
  return nullptr;
}

/// Answers each release within `give_up_after`, even if its key is still locked.
void mutex_set::check_releases() {
  while (!releases_.empty()) {
    const auto [since, id] = releases_.front();
    const slot* s = slots_.find(id);
    if (s && s->releasing) {
      if (!due_or_wake(since + options_.give_up_after)) return;
      answer_release(id, failed(error::timed_out, "the lock could not be released: its session is destroyed instead"));
    }
    releases_.pop_front();
  }
}

void mutex_set::retire_sessions() {
  if (session() && session()->is_created()) {
    // When the set is closed, pending unlocks need not finish: the end of the session removes their keys, too. It also
    // removes the keys that Consul refuses to unlock.
    const bool only_denied = locks_.size() == denied_.size() && txn_ == 0 && doubt_ == doubt::none;
    const bool unused = closing_.has_begun() ? held_ + lost_ == 0 : only_denied;
    if (unused &&
        (closing_.has_begun() || !denied_.empty() || due_or_wake(idle_since_ + options_.session_idle_timeout)))
      drop_session(loss_reason::none);
  }
  for (auto& [session, d] : sessions_.ending()) {
    if (!d.lost.empty() && !due_or_wake(d.over_at)) continue;
    while (!d.lost.empty()) let_go(d, d.lost.back());
  }
  sessions_.destroy(ctx_, [](const ending& d) { return d.lost.empty(); });
}

void mutex_set::finish_close() {
  if (!closing_.has_begun()) return;
  const bool any_lost = lost_ != 0 || std::any_of(sessions_.ending().begin(), sessions_.ending().end(),
                                                  [](const auto& each) { return !each.second.lost.empty(); });
  // Once no slot is in use, the session gets `give_up_after` to end, however long the users have taken.
  if (held_ == 0 && !any_lost) closing_.nobody_uses_anything(ctx_, options_.give_up_after);
  const bool clean = !session() && sessions_.ending().empty();
  if (!clean && !closing_.is_due(ctx_)) return;
  if (any_lost) {  // the time for their users to release them has expired
    if (lost_ != 0) drop_session(loss_reason::none);
    for (auto& [session, d] : sessions_.ending()) d.over_at = ctx_.now();
    retire_sessions();
    if (!closing_.at_once()) return closing_.once_more(ctx_, options_.give_up_after);
  }
  const failure why = clean ? failure{} : failed(error::timed_out, "a session is left to expire");
  for (const auto& [since, id] : std::exchange(releases_, {})) answer_release(id, why);
  closing_.end(ctx_, why);
}

void mutex_set::grant(place& at, std::uint64_t index) {
  lock& l = at.second;
  l.is_rest = false;
  if (!l.asked) {  // nobody wants it any more
    l.standing = standing::leaving;
    leaving_.push_back(&at);
    return;
  }
  const auto [id, s] = slots_.open();
  *s = {&at, false};
  ++held_;
  const ticket asked = *l.asked;
  stop_asking(at);
  l.standing = standing::held;
  l.slot = id;
  l.grant = index;
  act(action::grant{asked, id, {index, 0}, session()->lease.deadline()});
  if (session()->is_suspect()) act(action::update{id, session()->lease.deadline(), true});
}

/// Queues a lock that a caller asks for. If a lost session of ours may still hold it, it waits until that session has
/// ended.
void mutex_set::want(place& at) {
  lock& l = at.second;
  l.standing = standing::wanted;
  l.sent = l.is_rest = false;
  l.blocker = blocker_of(at.first);
  if (l.blocker)
    l.blocker->blocked.emplace(*l.asked, &at);
  else
    wanted_.push_back(&at);
}

/// Removes a name that nobody here uses any more. If a caller asks for it, the request starts anew instead.
void mutex_set::forget(place& at) {
  if (at.second.asked) return want(at);
  locks_.erase(locks_.find(at.first));
  if (locks_.empty()) idle_since_ = ctx_.now();
}

/// Removes the request of a caller. If a lost session blocked it, the name is forgotten, too.
void mutex_set::stop_asking(place& at) {
  lock& l = at.second;
  const ticket asked = *std::exchange(l.asked, std::nullopt);
  asking_.erase(asked);
  if (!l.blocker) return;
  l.blocker->blocked.erase(asked);
  forget(at);
}

void mutex_set::fail_first(const failure& why) {
  const auto first = asking_.begin();
  act(action::fail{first->first, why});
  stop_asking(*first->second);
}

void mutex_set::fail_waiters(const failure& why) {
  while (!asking_.empty()) fail_first(why);
}

void mutex_set::release_done(place& at, const failure& why) {
  answer_release(std::exchange(at.second.slot, slot_id::none), why);
  forget(at);
}

void mutex_set::answer_release(slot_id id, const failure& why) {
  slot* s = slots_.find(id);
  if (!s || !s->releasing) return;
  s->releasing = false;
  slots_.close(id);
  act(action::released{id, why});
}

/// Stops using the session. All its locks are lost for this reason. Callers that wait go on with another session.
void mutex_set::drop_session(loss_reason reason, failure why) {
  watch_.drop(ctx_);
  ending d;
  d.since = ctx_.now();
  d.over_at = session()->lease.over_at();
  for (const auto& [flags, effects] : session()->refused)
    for (const effect& each : effects)
      if (each.locks) d.names.insert(each.name);
  for (const auto& [name, l] : locks_) {
    const bool in_hands = l.standing == standing::held || l.standing == standing::lost;
    const bool is_ours = !in_hands || !is_of_lost_session(l.slot);
    if (is_ours && (in_hands ? is_end_of_session(reason) : l.standing == standing::leaving || l.sent))
      d.names.insert(name);
  }
  // From `until` on we assume that the session has ended, and no longer try to destroy it. Two TTLs are enough unless
  // Consul's leader changes: each new leader starts all TTLs anew. If that happens while we need no lock, no harm is
  // done. But if a name is in use here, a session that still lives may have its key locked, and Consul would refuse the
  // lock to us. So in that case we go on for ten TTLs.
  d.until = ctx_.now() + (locks_.empty() ? 2 : 10) * options_.ttl;
  wanted_.clear();
  for (auto& [session, each] : sessions_.ending()) each.blocked.clear();
  leaving_.clear();
  denied_.clear();
  denied_outage_.over();
  parts_.clear();
  txn_ = 0;
  doubt_ = doubt::none;
  held_ = lost_ = 0;
  for (auto at = locks_.begin(); at != locks_.end();) {
    place& each = *at++;
    lock& l = each.second;
    if (l.standing == standing::lost && is_of_lost_session(l.slot)) continue;  // lost with an earlier session
    const bool in_hands = l.standing == standing::held || l.standing == standing::lost;
    if (l.standing == standing::held) act(action::lose{l.slot, reason, why, each.first});
    if (in_hands && !is_end_of_session(reason)) {
      l.standing = standing::lost;
      d.lost.push_back(l.slot);
      continue;
    }
    const slot_id id = std::exchange(l.slot, slot_id::none);
    if (in_hands) {
      slots_.find(id)->place = nullptr;
      slots_.close(id);
    } else if (id != slot_id::none) {
      d.releasing.push_back(id);
    }
    if (!l.asked) forget(each);
  }
  if (is_end_of_session(reason))
    for (const slot_id each : std::exchange(d.releasing, {})) answer_release(each);
  sessions_.retire(session()->id) = std::move(d);
  for (const auto& [asked, at] : asking_) want(*at);  // in their order
}

/// The user of a lost slot has released it, or the time for that is over, or its session has ended. Until the slot's
/// session has ended, no caller in this process gets the lock.
void mutex_set::let_go(ending& d, slot_id id) {
  if (std::erase(d.lost, id) == 0) return;
  place& at = *std::exchange(slots_.find(id)->place, nullptr);
  if (d.names.empty()) d.since = ctx_.now();
  d.names.insert(at.first);
  slots_.close(id);
  at.second.slot = slot_id::none;
  forget(at);
}

void mutex_set::let_go(slot_id id) {
  for (auto& [session, d] : sessions_.ending()) let_go(d, id);
  slot* const s = slots_.find(id);
  if (!s->place) return;
  place& at = *std::exchange(s->place, nullptr);
  slots_.close(id);
  --lost_;
  at.second.slot = slot_id::none;
  at.second.standing = standing::leaving;
  leaving_.push_back(&at);
}

bool mutex_set::is_of_lost_session(slot_id id) const {
  return std::any_of(sessions_.ending().begin(), sessions_.ending().end(), [id](const auto& each) {
    return std::find(each.second.lost.begin(), each.second.lost.end(), id) != each.second.lost.end();
  });
}

void mutex_set::has_ended(set_of_sessions::ending_map::iterator at) {
  while (!at->second.lost.empty()) let_go(at->second, at->second.lost.back());
  const ending d = sessions_.remove(at);
  for (const slot_id each : d.releasing) answer_release(each);
  for (const auto& [asked, each] : d.blocked) want(*each);
}

void mutex_set::report() {
  if (held_ == 0) return;
  slots_.for_each([this](slot_id id, const slot& s) {
    if (is_held(s)) act(action::update{id, session()->lease.deadline(), session()->is_suspect()});
  });
}

std::vector<core::entry> mutex_set::entries_of(slot_id id) {
  const slot* s = slots_.find(id);
  if (!s || !is_held(*s)) return {};
  return {{key_of(*s->place), session()->session, s->place->second.grant}};
}

std::string mutex_set::lock_key(slot_id id) {
  const slot* s = slots_.find(id);
  return s && is_held(*s) ? key_of(*s->place) : std::string();
}

failure mutex_set::failed(error_code code, std::string text) const {
  return {code, {std::move(text), options_.prefix, {}, {}}};
}

}  // namespace holdfast::protocol

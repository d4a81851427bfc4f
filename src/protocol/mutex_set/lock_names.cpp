// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/lock_names.hpp"

#include <algorithm>
#include <utility>

#include "protocol/mutex_set/set_keys.hpp"

namespace holdfast::protocol {
namespace {

constexpr bool has_ended_session(loss_reason reason) {
  switch (reason) {
    case loss_reason::session_invalidated:
      return true;
    case loss_reason::none:
    case loss_reason::removed:
    case loss_reason::lease_expired:
    case loss_reason::watch_failed:
    case loss_reason::closed:
    case loss_reason::not_accepted:
    case loss_reason::application_silent:
      return false;
  }
  return false;
}

}  // namespace

bool lock_names::ask(context& ctx, std::string_view name, ticket asked) {
  auto at = locks_.lower_bound(name);
  const bool is_new = at == locks_.end() || at->first != name;
  if (is_new) at = locks_.emplace_hint(at, name, lock());
  lock& l = at->second;
  if (l.asked || l.is_in_hands()) return false;
  l.asked = asked;
  l.came = ctx.now();
  l.asked_after = ctx.last_request();
  asking_.emplace(asked, &*at);
  if (is_new) want(*at);
  return true;
}

bool lock_names::cancel(context& ctx, ticket asked) {
  const auto at = asking_.find(asked);
  if (at == asking_.end()) return false;
  stop_asking(ctx, *at->second);
  return true;
}

void lock_names::release(context& ctx, slot_id id) {
  slot* s = slots_.find(id);
  if (!s || !s->place) return;
  if (s->place->second.standing == standing::lost) return let_go(ctx, id);
  leave(*std::exchange(s->place, nullptr));
  s->releasing = true;
  releases_.emplace_back(ctx.now(), id);
  --held_;
}

void lock_names::lose_all(context& ctx, const std::string& session) {
  for (auto& [name, l] : locks_) {
    if (l.standing != standing::held) continue;
    l.standing = standing::lost;
    ctx.act(action::lose{l.slot, loss_reason::closed, {}, name, session});
  }
  lost_ += std::exchange(held_, 0);
}

void lock_names::fail_first(context& ctx, const failure& why) {
  const auto first = asking_.begin();
  ctx.act(action::fail{first->first, why});
  stop_asking(ctx, *first->second);
}

void lock_names::fail_all(context& ctx, const failure& why) {
  while (!asking_.empty()) fail_first(ctx, why);
}

void lock_names::fail_blocked(context& ctx, const core_options& options) {
  for (auto& [session, d] : lost_sessions_)
    while (!d.blocked.empty()) {
      const auto [asked, first] = *d.blocked.begin();
      if (!ctx.due_or_wake(std::max(d.since, first->second.came) + options.give_up_after)) break;
      ctx.act(action::fail{asked, set_keys::failed(options, error::timed_out, "a lost session has not ended yet")});
      stop_asking(ctx, *first);
    }
}

void lock_names::check_releases(context& ctx, const core_options& options) {
  while (!releases_.empty()) {
    const auto [since, id] = releases_.front();
    const slot* s = slots_.find(id);
    if (s && s->releasing) {
      if (!ctx.due_or_wake(since + options.give_up_after)) return;
      answer_release(ctx, id,
                     set_keys::failed(options, error::timed_out,
                                      "the lock could not be released: its session is destroyed instead"));
    }
    releases_.pop_front();
  }
}

void lock_names::answer_all_releases(context& ctx, const failure& why) {
  for (const auto& [since, id] : std::exchange(releases_, {})) answer_release(ctx, id, why);
}

bool lock_names::any_lost() const {
  return lost_ != 0 || std::any_of(lost_sessions_.begin(), lost_sessions_.end(),
                                   [](const auto& each) { return !each.second.lost.empty(); });
}

const lock_names::place* lock_names::held_by(slot_id id) {
  const slot* s = slots_.find(id);
  return s && is_held(*s) ? s->place : nullptr;
}

void lock_names::report(context& ctx, time_point deadline, bool is_suspect) {
  if (held_ == 0) return;
  slots_.for_each([&](slot_id id, const slot& s) {
    if (is_held(s)) ctx.act(action::update{id, deadline, is_suspect});
  });
}

void lock_names::prepare(context& ctx) {
  queues_.retry_denied(ctx);
  while (queues_.has_locks() && !queues_.first_lock().second.asked) forget(ctx, queues_.take_lock());
}

std::vector<lock_names::part> lock_names::take_parts(context& ctx, std::size_t operations, bool may_lock) {
  std::vector<part> parts;
  const auto add = [&](place& at, bool locks) {
    at.second.sent = true;
    parts.push_back({&at, locks});
    operations -= parts.back().operations();
  };
  // If other processes take the same locks, batch after batch may be refused. A release that was in a refused batch is
  // sent without locks, so locks delay it only once. The locks of a refused batch are sent without newcomers.
  may_lock = may_lock && !queues_.begins_with_rest_of_unlocks();
  const bool only_rest = queues_.begins_with_rest_of_locks();
  while (queues_.has_unlocks() && operations >= 2) add(queues_.take_unlock(), false);
  while (may_lock && queues_.has_locks() && operations >= 1) {
    if (only_rest && !queues_.first_lock().second.is_rest) break;
    place& at = queues_.take_lock();
    if (at.second.asked)
      add(at, true);
    else
      forget(ctx, at);
  }
  return parts;
}

void lock_names::put_back(const std::vector<part>& parts, bool as_rest) {
  for (auto each = parts.rbegin(); each != parts.rend(); ++each) {
    each->place->second.sent = false;
    if (as_rest) each->place->second.is_rest = true;
    queues_.put_back(*each->place, each->locks);
  }
}

void lock_names::locked(context& ctx, place& at, std::uint64_t index, const own_session& by) {
  lock& l = at.second;
  l.sent = l.is_rest = false;
  if (!l.asked) return leave(at);  // nobody wants it any more
  const auto [id, s] = slots_.open();
  *s = {&at, false};
  ++held_;
  const ticket asked = *l.asked;
  stop_asking(ctx, at);
  l.standing = standing::held;
  l.slot = id;
  l.grant = index;
  ctx.act(action::grant{asked, id, {index, 0}, by.lease.deadline()});
  if (by.is_suspect()) ctx.act(action::update{id, by.lease.deadline(), true});
}

void lock_names::unlocked(context& ctx, place& at, const failure& why) {
  at.second.sent = false;
  answer_release(ctx, std::exchange(at.second.slot, slot_id::none), why);
  forget(ctx, at);
}

void lock_names::taken_away(context& ctx, place& at) {
  at.second.sent = false;
  forget(ctx, at);
}

void lock_names::refused(context& ctx, const part& each, request_id id, bool is_error, const failure& why) {
  place& at = *each.place;
  lock& l = at.second;
  if (!each.locks && !is_error) return unlocked(ctx, at, why);
  l.sent = false;
  if (!each.locks) {
    answer_release(ctx, std::exchange(l.slot, slot_id::none), why);
    queues_.deny_unlock(ctx, at, why);
  }
  // A caller that asked after this request was sent gets a try of its own, unless the refusal is an error.
  if (l.asked && (is_error || l.asked_after < id)) {
    const ticket asked = *l.asked;
    stop_asking(ctx, at);
    if (is_error)
      ctx.act(action::fail{asked, why});
    else
      ctx.act(action::deny{asked});
  }
  if (each.locks) forget(ctx, at);
}

void lock_names::copy_applied(context& ctx, const std::vector<effect>& effects) {
  for (const effect& each : effects) {
    const auto at = each.locks ? locks_.try_emplace(each.name).first : locks_.find(each.name);
    if (at == locks_.end()) continue;
    if (each.locks && at->second.standing == standing::wanted) {
      // The caller may have been denied the lock, or may have stopped asking. So the key is unlocked first. If somebody
      // asks for it, the request starts anew after that.
      queues_.drop_lock(*at);
      leave(*at);
    } else if (!each.locks && at->second.standing == standing::leaving) {
      queues_.drop_unlock(*at);
      unlocked(ctx, *at);
    }
  }
}

void lock_names::lose_session(context& ctx, const std::string& session, loss_reason reason, const failure& why,
                              time_point over_at, std::set<std::string, std::less<>> maybe_locked) {
  lost_session d;
  d.since = ctx.now();
  d.over_at = over_at;
  d.names = std::move(maybe_locked);
  for (const auto& [name, l] : locks_)
    if (may_be_locked(l, reason)) d.names.insert(name);
  queues_ = {};
  for (auto& [name, each] : lost_sessions_) each.blocked.clear();
  held_ = lost_ = 0;
  for (auto at = locks_.begin(); at != locks_.end();) {
    place& each = *at++;
    lose(ctx, each, session, reason, why, d);
  }
  if (has_ended_session(reason))
    for (const slot_id each : std::exchange(d.releasing, {})) answer_release(ctx, each);
  lost_sessions_.insert_or_assign(session, std::move(d));
  for (const auto& [asked, at] : asking_) want(*at);  // in their order
}

/// True if the session that is lost for this reason may still have locked this name, and no user here knows it.
bool lock_names::may_be_locked(const lock& l, loss_reason reason) const {
  if (!l.is_in_hands()) return l.standing == standing::leaving || l.sent;
  return has_ended_session(reason) && !is_of_lost_session(l.slot);
}

/// The session in use is lost for this reason. `d` becomes what is known of it afterwards.
void lock_names::lose(context& ctx, place& at, const std::string& session, loss_reason reason, const failure& why,
                      lost_session& d) {
  lock& l = at.second;
  if (l.standing == standing::lost && is_of_lost_session(l.slot)) return;  // lost with an earlier session
  const bool in_hands = l.is_in_hands();
  if (l.standing == standing::held) ctx.act(action::lose{l.slot, reason, why, at.first, session});
  if (in_hands && !has_ended_session(reason)) {
    l.standing = standing::lost;
    d.lost.push_back(l.slot);
    return;
  }
  const slot_id id = std::exchange(l.slot, slot_id::none);
  if (in_hands) {
    slots_.find(id)->place = nullptr;
    slots_.close(id);
  } else if (id != slot_id::none) {
    d.releasing.push_back(id);
  }
  if (!l.asked) forget(ctx, at);
}

void lock_names::has_ended(context& ctx, std::string_view session) {
  const auto at = lost_sessions_.find(session);
  while (!at->second.lost.empty()) let_go(ctx, at->second, at->second.lost.back());
  const lost_session d = std::move(lost_sessions_.extract(at).mapped());
  for (const slot_id each : d.releasing) answer_release(ctx, each);
  for (const auto& [asked, each] : d.blocked) want(*each);
}

void lock_names::let_go_of_overdue(context& ctx) {
  for (auto& [session, d] : lost_sessions_) {
    if (!d.lost.empty() && !ctx.due_or_wake(d.over_at)) continue;
    while (!d.lost.empty()) let_go(ctx, d, d.lost.back());
  }
}

void lock_names::lost_are_overdue(context& ctx) {
  for (auto& [session, d] : lost_sessions_) d.over_at = ctx.now();
}

/// Queues a lock that a caller asks for. If a lost session of ours may still hold it, it waits until that session has
/// ended.
void lock_names::want(place& at) {
  lock& l = at.second;
  l.standing = standing::wanted;
  l.sent = l.is_rest = false;
  l.blocker = blocker_of(at.first);
  if (l.blocker)
    l.blocker->blocked.emplace(*l.asked, &at);
  else
    queues_.lock(at);
}

/// Removes a name that nobody here uses any more. If a caller asks for it, the request starts anew instead.
void lock_names::forget(context& ctx, place& at) {
  if (at.second.asked) return want(at);
  locks_.erase(locks_.find(at.first));
  if (locks_.empty()) is_idle(ctx);
}

/// Removes the request of a caller. If a lost session blocked it, the name is forgotten, too.
void lock_names::stop_asking(context& ctx, place& at) {
  lock& l = at.second;
  const ticket asked = *std::exchange(l.asked, std::nullopt);
  asking_.erase(asked);
  if (!l.blocker) return;
  l.blocker->blocked.erase(asked);
  forget(ctx, at);
}

void lock_names::leave(place& at) {
  at.second.standing = standing::leaving;
  queues_.unlock(at);
}

void lock_names::answer_release(context& ctx, slot_id id, const failure& why) {
  slot* s = slots_.find(id);
  if (!s || !s->releasing) return;
  s->releasing = false;
  slots_.close(id);
  ctx.act(action::released{id, why.code ? std::optional(why) : std::nullopt});
}

/// The user of a lost slot has released it, or the time for that is over, or its session has ended. Until the slot's
/// session has ended, no caller in this process gets the lock.
void lock_names::let_go(context& ctx, lost_session& d, slot_id id) {
  if (std::erase(d.lost, id) == 0) return;
  place& at = *std::exchange(slots_.find(id)->place, nullptr);
  if (d.names.empty()) d.since = ctx.now();
  d.names.insert(at.first);
  slots_.close(id);
  at.second.slot = slot_id::none;
  forget(ctx, at);
}

void lock_names::let_go(context& ctx, slot_id id) {
  for (auto& [session, d] : lost_sessions_) let_go(ctx, d, id);
  slot* const s = slots_.find(id);
  if (!s->place) return;
  place& at = *std::exchange(s->place, nullptr);
  slots_.close(id);
  --lost_;
  at.second.slot = slot_id::none;
  leave(at);
}

lock_names::lost_session* lock_names::blocker_of(std::string_view name) {
  for (auto& [session, d] : lost_sessions_)
    if (d.names.contains(name)) return &d;
  return nullptr;
}

bool lock_names::is_of_lost_session(slot_id id) const {
  return std::any_of(lost_sessions_.begin(), lost_sessions_.end(), [id](const auto& each) {
    return std::find(each.second.lost.begin(), each.second.lost.end(), id) != each.second.lost.end();
  });
}

}  // namespace holdfast::protocol

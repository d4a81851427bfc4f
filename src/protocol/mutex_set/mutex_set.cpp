// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/mutex_set.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "protocol/base/invariant.hpp"

namespace holdfast::protocol {

namespace {

using set_event = joined<user_event, common_event>;

}  // namespace

mutex_set::mutex_set(mutex_set_options options, std::uint64_t seed)
    : core(seed),
      options_(std::move(options)),
      sessions_(options_),
      news_(options_.prefix),
      application_(options_.alive_within, options_.prefix) {}

void mutex_set::step(core_event&& e, time_point now, core_actions& out) {
  ctx_.begin(now, out);
  // If the lease has expired, an event about the session comes too late, so the lease is checked first. A release is
  // taken before the check, because it must be answered, and the release of a lost slot is not.
  if (!closing_.is_over() && !std::holds_alternative<event::release>(e)) check_lease();
  std::visit(
      [this]<class Event>(Event& concrete) {
        if constexpr (is_alternative<Event, set_event>)
          on(concrete);
        else
          check_invariant("a mutex set gets the events that every core takes", [] { return false; });
      },
      e);
  advance();
  ctx_.end();
}

void mutex_set::on(event::acquire& e) {
  check_invariant("an acquire of a mutex set tries once, for one lock", [&] {
    const auto& [count, once, deadline] = e.terms;
    return count == 1 && once && deadline == never;
  });
  if (closing_.has_begun()) return act(action::fail{e.ticket, failed(error::closed, "the mutex set is closed")});
  // Each lock would be lost at once.
  if (contradictions_.stands(now()))
    return act(action::fail{
        e.ticket,
        failed(error::not_consul, "answers contradict each other: a key was written, but later reads do not show it")});
  if (application_.is_silent()) return act(action::deny{e.ticket});
  const bool is_first = names_.asking() == 0;
  if (names_.asking() >= options_.waiters_max || names_.size() + names_.releases() >= slots_in_use_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "too many ask at once")});
  if (!names_.ask(ctx_, e.name, e.ticket)) return act(action::deny{e.ticket});
  // If no other caller waits, this one does not wait for the backoff of earlier failures.
  if (!is_first) return;
  batch_.retry_now();
  sessions_.retry_now();  // but not `lost_by_watch_`: each caller would create a session and lose it
}

void mutex_set::on(event::cancel& e) {
  if (!names_.cancel(ctx_, e.ticket)) return;
  act(action::fail{e.ticket,
                   {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void mutex_set::on(event::release& e) { names_.release(ctx_, e.slot); }

void mutex_set::on(event::close& e) {
  closing_.begin();
  if (e.at_once) closing_.begin_at_once(ctx_);
  names_.fail_all(ctx_, failed(error::closed, "the mutex set was closed"));
  if (!e.lose_slots) return;
  names_.lose_all(ctx_, session() ? own().session : std::string());
  closing_.within(ctx_, options_.give_up_after);
}

void mutex_set::on(event::session_created& e) {
  const creation was = sessions_.answered(ctx_, e, closing_.is_over());
  if (was == creation::refused) names_.fail_all(ctx_, e.error);
  if (was == creation::done) names_.is_idle(ctx_);
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
    if (!batch_.guard().is_open()) return drop_session(loss_reason::session_invalidated);
    return watch_.read_at_once(ctx_);
  }
  if (e.outcome == event::renewal::renewed) batch_.guard().session_is_renewed();
  if (session()->lease.deadline() != deadline) report();
}

void mutex_set::on(event::session_destroyed& e) {
  const auto at = sessions_.destroyed(ctx_, e);
  if (at != sessions_.ending().end()) has_ended(at);
}

void mutex_set::on(event::key_watched& e) {
  if (!watch_.take(e.id)) return;
  if (e.error.code) {
    if (watch_.is_news_of_failure())
      act(action::note{log_kind::watch_failed, keys().of_session(), {}, e.error.details.to_string()});
    if (is_final(e.error.code)) names_.fail_all(ctx_, e.error);
    return watch_.failed(ctx_, std::move(e.error));
  }
  if (watch_.is_news_of_success()) act(action::note{log_kind::watch_restored, keys().of_session()});
  watch_.works();
  lost_by_watch_.over();
  if (!e.pair || e.pair->session != own().session) {
    contradictions_.found(ctx_, news_, "the key of a session is missing");
    return drop_session(loss_reason::session_invalidated);
  }
  contradictions_.none(ctx_, news_);
  watch_.has_seen(ctx_, news_, e.pair->modify_index);
}

/// Another pass follows until one does nothing. Then each timer has been set that the state needs, also for the
/// requests that have just been sent.
void mutex_set::advance() {
  for (std::size_t before = ctx_.actions() + 1; before != ctx_.actions();) {
    before = ctx_.actions();
    advance_once();
  }
}

void mutex_set::advance_once() {
  ctx_.forget_times();
  if (closing_.is_over()) return;
  application_.check(ctx_, session() || names_.asking() != 0);
  check_lease();
  check_watch();
  check_outage();
  names_.check_releases(ctx_, options_);
  for (auto at = sessions_.let_expire(ctx_); at != sessions_.ending().end(); at = sessions_.let_expire(ctx_))
    has_ended(at);
  write();
  retire_sessions();
  finish_close();
}

void mutex_set::check_lease() {
  if (!session() || !session()->is_created()) return;
  if (due_or_wake(session()->lease.deadline()))
    return application_.is_silent() ? drop_session(loss_reason::application_silent, application_.why_silent())
                                    : drop_session(loss_reason::lease_expired, session()->why_expired(options_.store));
  if (session()->keep_alive(ctx_, watch_.failures().on(), !application_.is_silent())) report();
}

void mutex_set::check_watch() {
  if (!batch_.guard().is_open()) return;
  if (names_.held() != 0 && due_or_wake(serves_until())) {
    lost_by_watch_.failed(watch_.failures().last(), ctx_.now(), ctx_.random());
    return drop_session(loss_reason::watch_failed, watch_.failures().last());
  }
  if (due_or_wake(watch_.due_at())) watch_.start(ctx_, keys().of_session(), options_.watch_wait);
}

void mutex_set::check_outage() {
  const duration limit = options_.give_up_after;
  const auto fail_those_who_came_before = [&](time_point since, const failure& why) {
    while (names_.asking() != 0 && due_or_wake(std::max(since, names_.first_came()) + limit))
      names_.fail_first(ctx_, why);
  };
  const outage* const all[] = {&batch_.failures(), &sessions_.failures(), &lost_by_watch_, &watch_.failures()};
  for (const outage* o : all)
    if (o->on()) fail_those_who_came_before(o->since(), o->last());
  const time_point asked = batch_.is_pending()                     ? batch_.sent_at()
                           : session() && !session()->is_created() ? session()->asked_at
                                                                   : never;
  if (asked == never || names_.asking() == 0)
    overdue_.over();
  else if (overdue_.check(ctx_, std::max(asked, names_.first_came()) + limit, limit / 10))
    fail_those_who_came_before(asked, failed(error::timed_out, options_.store + " does not answer"));
  names_.fail_blocked(ctx_, options_);
}

void mutex_set::retire_sessions() {
  if (session() && session()->is_created()) {
    // When the set is closed, pending unlocks need not finish: the end of the session removes their keys, too. It also
    // removes the keys that Consul refuses to unlock.
    const bool only_denied = names_.has_only_denied() && batch_.is_idle();
    const bool unused = closing_.has_begun() ? names_.held() + names_.lost() == 0 : only_denied;
    if (unused && (closing_.has_begun() || names_.has_denied() ||
                   due_or_wake(names_.idle_since() + options_.session_idle_timeout)))
      drop_session(loss_reason::none);
  }
  names_.let_go_of_overdue(ctx_);
  for (auto& [session, each] : sessions_.ending())
    if (!names_.keeps(session)) each.pursue(ctx_, session);
}

void mutex_set::finish_close() {
  if (!closing_.has_begun()) return;
  const bool any_lost = names_.any_lost();
  // Once no slot is in use, the session gets `give_up_after` to end, however long the users have taken.
  if (names_.held() == 0 && !any_lost) closing_.nobody_uses_anything(ctx_, options_.give_up_after);
  const bool clean = !session() && sessions_.ending().empty();
  if (!clean && !due_or_wake(closing_.deadline())) return;
  if (any_lost) {  // the time for their users to release them has expired
    if (names_.lost() != 0) drop_session(loss_reason::none);
    names_.lost_are_overdue(ctx_);
    retire_sessions();
    if (!closing_.at_once()) return closing_.once_more(ctx_, options_.give_up_after);
  }
  const failure why = clean ? failure{} : failed(error::timed_out, "a session is left to expire");
  names_.answer_all_releases(ctx_, why);
  closing_.end(ctx_, why);
}

/// Stops using the session. All its locks are lost for this reason. Callers that wait go on with another session.
void mutex_set::drop_session(loss_reason reason, failure why) {
  watch_.drop(ctx_);
  // From `until` on we assume that the session has ended, and no longer try to destroy it. Two TTLs are enough unless
  // Consul's leader changes: each new leader starts all TTLs anew. If that happens while we need no lock, no harm is
  // done. But if a name is in use here, a session that still lives may have its key locked, and Consul would refuse the
  // lock to us. So in that case we go on for ten TTLs.
  const time_point until = ctx_.now() + (names_.empty() ? 2 : 10) * options_.ttl;
  names_.lose_session(ctx_, session()->session, reason, why, session()->lease.over_at(), batch_.drop());
  sessions_.retire(session()->id).until = until;
}

void mutex_set::has_ended(sessions::ending_map::iterator at) {
  names_.has_ended(ctx_, at->first);
  sessions_.remove(at);
}

void mutex_set::report() { names_.report(ctx_, own().lease.deadline(), own().is_suspect()); }

std::vector<core::entry> mutex_set::entries_of(slot_id id) {
  const lock_names::place* const at = names_.held_by(id);
  if (!at) return {};
  return {{keys().of(at->first), own().session, at->second.grant}};
}

std::string mutex_set::lock_key(slot_id id) {
  const lock_names::place* const at = names_.held_by(id);
  return at ? keys().of(at->first) : std::string();
}

}  // namespace holdfast::protocol

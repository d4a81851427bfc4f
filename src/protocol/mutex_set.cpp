#include "protocol/mutex_set.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace holdfast::protocol {

mutex_set::mutex_set(mutex_set_options options, std::uint64_t seed) : core(seed), options_(std::move(options)) {}

void mutex_set::step(pool_event&& e, time_point now, pool_actions& out) {
  begin_step(now, out);
  // What is told of a session whose lease is over comes too late. Who releases now still has to be answered.
  if (!closed_ && !std::holds_alternative<event::release>(e)) check_lease();
  std::visit([this](auto& concrete) { on(concrete); }, e);
  settle();
  end_step();
}

void mutex_set::on(event::acquire& e) {
  if (closing_) return act(action::fail{e.ticket, failed(error::closed, "the mutex set is closed")});
  if (asking_.size() >= options_.waiters_max || locks_.size() + releases_.size() >= slots_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "too many ask at once")});
  auto at = locks_.lower_bound(e.name);
  const bool is_new = at == locks_.end() || at->first != e.name;
  if (is_new) at = locks_.emplace_hint(at, e.name, lock());
  lock& l = at->second;
  if (l.asked || l.standing == standing::held || l.standing == standing::lost) return act(action::deny{e.ticket});
  // What failed before its time does not keep it waiting.
  if (asking_.empty()) {
    write_outage_.retry_now();
    if (is_watch_good_) create_outage_.retry_now();  // or each would have a session, and lose it
  }
  l.asked = e.ticket;
  l.came = now_;
  l.asked_after = last_request_;
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
  releases_.emplace_back(now_, e.slot);
  --held_;
}

void mutex_set::on(event::close& e) {
  closing_ = true;
  at_once_ = at_once_ || e.at_once;
  if (at_once_) close_deadline_ = now_;
  fail_waiters(failed(error::closed, "the mutex set was closed"));
  if (!e.revoke) return;
  for (auto& [name, l] : locks_) {
    if (l.standing != standing::held) continue;
    l.standing = standing::lost;
    act(action::lose{l.slot, loss_reason::closed, {}});
  }
  lost_ += std::exchange(held_, 0);
  close_deadline_ = std::min(close_deadline_, now_ + options_.give_up_after);
}

void mutex_set::on(event::session_created& e) {
  if (!session_ || session_->id != e.member || session_->ready) return;
  if (e.session.empty()) {
    if (registers_node(*session_, e.error, options_.node)) return;
    e.error = with_rules(std::move(e.error), options_.node);
    const time_point asked_at = session_->asked_at;
    session_.reset();
    if (is_final(e.error.code) && e.error.code != error::missing_node) fail_waiters(e.error);
    create_outage_.failed(std::move(e.error), now_, random_, asked_at);
    return;
  }
  if (is_watch_good_) create_outage_.over();
  created(*session_, std::move(e.session), lease(options_.ttl, options_.lease_margin));
  session_->ready = true;
  idle_since_ = now_;
}

void mutex_set::on(event::node_registered& e) {
  registering_ = false;
  if (!session_ || !session_->awaits_node) return;
  event::session_created failed{session_->id, {}, e.error};
  if (e.error.code)
    on(failed);
  else
    create_again(*session_);
}

void mutex_set::on(event::session_renewed& e) {
  if (!session_ || session_->id != e.member) return;
  const time_point deadline = session_->lease.deadline();
  if (!renewed(*session_, e)) {
    if (!session_->open) return drop_session(loss_reason::session_invalidated);
    if (watch_ != 0) act(action::stop_watch{std::exchange(watch_, 0)});
    watch_index_ = 0;  // a plain look, which answers at once
    return watch_outage_.retry_now();
  }
  if (e.outcome == event::renewal::renewed) session_->copies_due = !session_->refused.empty();
  if (session_->lease.deadline() != deadline) report();
}

void mutex_set::on(event::session_destroyed& e) {
  const auto at = doomed_.find(e.session);
  if (at == doomed_.end()) return;
  if (!e.gone) return not_destroyed(at->second);
  doomed_ended(at);
}

void mutex_set::on(event::key_watched& e) {
  if (e.id != watch_) return;
  watch_ = 0;
  watch_index_ = 0;  // after a failure a plain look first: it answers at once
  if (e.error.code) {
    act(action::note{"watch of " + session_key() + " failed: " + e.error.details.to_string()});
    if (is_final(e.error.code)) fail_waiters(e.error);
    return watch_outage_.failed(std::move(e.error), now_, random_);
  }
  watch_outage_.over();
  if (!std::exchange(is_watch_good_, true)) create_outage_.over();
  if (!e.pair || e.pair->session != session_->session) return drop_session(loss_reason::session_invalidated);
  watch_index_ = e.pair->modify_index;
}

void mutex_set::settle() {
  wake_ = never;
  if (closed_) return;
  check_lease();
  check_watch();
  check_outage();
  check_releases();
  forget_expired();
  write();
  retire_sessions();
  finish_close();
}

void mutex_set::check_lease() {
  if (!session_ || !session_->ready) return;
  if (due(session_->lease.deadline())) return drop_session(loss_reason::lease_expired, why_expired(*session_));
  renew_when_due(*session_);
  const bool suspect = due(session_->lease.suspect_at()) || watch_outage_.on();
  if (std::exchange(suspect_, suspect) != suspect) report();
}

void mutex_set::check_watch() {
  if (!session_ || !session_->open) return;
  if (held_ != 0 && !serving()) {
    is_watch_good_ = false;
    create_outage_.failed(watch_outage_.last(), now_, random_);
    return drop_session(loss_reason::watch_failed, watch_outage_.last());
  }
  if (watch_ != 0 || !due(watch_outage_.retry_at())) return;
  watch_ = ++last_request_;
  const duration wait =
      watch_index_ == 0 ? duration() : random_.between(options_.watch_wait * 3 / 4, options_.watch_wait);
  act(action::watch_key{watch_, session_key(), watch_index_, wait});
}

/// While nobody watches, nobody gets a lock: it would be lost at once.
bool mutex_set::serving() { return !watch_outage_.on() || !due(watch_outage_.since() + options_.outage_grace); }

void mutex_set::check_outage() {
  const auto fail_those_who_came_before = [this](time_point since, const failure& why) {
    while (!asking_.empty() && due(std::max(since, asking_.begin()->second->second.came) + options_.give_up_after))
      fail_first(why);
  };
  for (const outage* o : {&write_outage_, &create_outage_, &watch_outage_})
    if (o->on()) fail_those_who_came_before(o->since(), o->last());
  const time_point asked = txn_ != 0 ? sent_at_ : session_ && !session_->ready ? session_->asked_at : never;
  if (asked == never || asking_.empty())
    overdue_since_ = never;
  else if (is_overdue(std::max(asked, asking_.begin()->second->second.came) + options_.give_up_after,
                      options_.give_up_after / 10))
    fail_those_who_came_before(asked, failed(error::timed_out, "Consul does not answer"));
  fail_blocked();
}

void mutex_set::fail_blocked() {
  for (auto& [session, d] : doomed_)
    while (!d.blocked.empty()) {
      const auto [asked, first] = *d.blocked.begin();
      if (!due(std::max(d.since, first->second.came) + options_.give_up_after)) break;
      act(action::fail{asked, failed(error::timed_out, "a lost session has not ended yet")});
      stop_asking(*first);
    }
}

mutex_set::doomed* mutex_set::blocker_of(std::string_view name) {
  for (auto& [session, d] : doomed_)
    if (d.names.contains(name)) return &d;
  return nullptr;
}

/// Each is answered in time, whatever becomes of its key.
void mutex_set::check_releases() {
  while (!releases_.empty()) {
    const auto [since, id] = releases_.front();
    const slot* s = slots_.find(id);
    if (s && s->releasing) {
      if (!due(since + options_.give_up_after)) return;
      answer_release(id, failed(error::timed_out, "the lock could not be given back: it goes with its session"));
    }
    releases_.pop_front();
  }
}

/// Consul has ended them by now.
void mutex_set::forget_expired() {
  for (auto at = doomed_.begin(); at != doomed_.end();) at = due(at->second.until) ? doomed_ended(at) : std::next(at);
}

void mutex_set::retire_sessions() {
  if (session_ && session_->ready) {
    // What is on its way out goes with the session, too.
    // The end of the session lets go of what Consul refuses to unlock.
    const bool only_denied = locks_.size() == denied_.size() && txn_ == 0 && doubt_ == doubt::none;
    const bool unused = closing_ ? held_ + lost_ == 0 : only_denied;
    if (unused && (closing_ || !denied_.empty() || due(idle_since_ + options_.session_idle)))
      drop_session(loss_reason::none);
  }
  for (auto& [session, d] : doomed_) {
    if (!d.lost.empty() && !due(d.over_at)) continue;
    while (!d.lost.empty()) let_go(d, d.lost.back());
    pursue(d, session);
  }
}

void mutex_set::finish_close() {
  if (!closing_) return;
  const bool any_lost = lost_ != 0 || std::any_of(doomed_.begin(), doomed_.end(),
                                                  [](const auto& each) { return !each.second.lost.empty(); });
  // What goes back has its time, too, however long its users have taken.
  if (held_ == 0 && !any_lost && !at_once_ && !std::exchange(nothing_in_use_, true))
    close_deadline_ = now_ + options_.give_up_after;
  const bool clean = !session_ && doomed_.empty();
  if (!clean && !due(close_deadline_)) return;
  if (any_lost) {  // whose users have had their time to let go
    if (lost_ != 0) drop_session(loss_reason::none);
    for (auto& [session, d] : doomed_) d.over_at = now_;
    retire_sessions();
    nothing_in_use_ = true;
    if (!at_once_) return wake_at(close_deadline_ = now_ + options_.give_up_after);
  }
  const failure why = clean ? failure{} : failed(error::timed_out, "a session is left to expire");
  for (const auto& [since, id] : std::exchange(releases_, {})) answer_release(id, why);
  closed_ = true;
  act(action::closed{why});
}

void mutex_set::grant(place& at, std::uint64_t index) {
  lock& l = at.second;
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
  act(action::grant{asked, id, {index, 0}, session_->lease.deadline()});
  if (suspect_) act(action::update{id, session_->lease.deadline(), true});
}

/// Somebody asks for it. What a lost session of ours may still hold waits until that has ended.
void mutex_set::want(place& at) {
  lock& l = at.second;
  l.standing = standing::wanted;
  l.sent = false;
  l.blocker = blocker_of(at.first);
  if (l.blocker)
    l.blocker->blocked.emplace(*l.asked, &at);
  else
    wanted_.push_back(&at);
}

/// Nobody here has to do with it any more; or, if somebody asks for it, from the start.
void mutex_set::forget(place& at) {
  if (at.second.asked) return want(at);
  locks_.erase(locks_.find(at.first));
  if (locks_.empty()) idle_since_ = now_;
}

/// What was blocked is forgotten with that.
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

/// All that it holds is lost, for this reason. Whoever asks goes on with another session.
void mutex_set::drop_session(loss_reason reason, failure why) {
  if (watch_ != 0) act(action::stop_watch{std::exchange(watch_, 0)});
  watch_index_ = 0;
  watch_outage_.over();
  doomed d;
  d.since = now_;
  d.over_at = session_->lease.over_at();
  for (const auto& [flags, effects] : session_->refused)
    for (const effect& each : effects)
      if (each.locks) d.names.insert(each.name);
  for (const auto& [name, l] : locks_) {
    const bool in_hands = l.standing == standing::held || l.standing == standing::lost;
    const bool is_ours = !in_hands || !is_doomed(l.slot);
    if (is_ours && (in_hands ? reason == loss_reason::session_invalidated : l.standing == standing::leaving || l.sent))
      d.names.insert(name);
  }
  // Each new leader of Consul's lets all TTLs start anew; and what is still locked would be refused to us.
  d.until = now_ + (locks_.empty() ? 2 : 10) * options_.ttl;
  wanted_.clear();
  for (auto& [session, each] : doomed_) each.blocked.clear();
  leaving_.clear();
  denied_.clear();
  denied_outage_.over();
  parts_.clear();
  rest_ = 0;
  txn_ = 0;
  doubt_ = doubt::none;
  suspect_ = false;
  held_ = lost_ = 0;
  for (auto at = locks_.begin(); at != locks_.end();) {
    place& each = *at++;
    lock& l = each.second;
    if (l.standing == standing::lost && is_doomed(l.slot)) continue;  // with an earlier session
    const bool in_hands = l.standing == standing::held || l.standing == standing::lost;
    if (l.standing == standing::held) act(action::lose{l.slot, reason, why});
    if (in_hands && reason != loss_reason::session_invalidated) {
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
  if (reason == loss_reason::session_invalidated)
    for (const slot_id each : std::exchange(d.releasing, {})) answer_release(each);
  doomed_.insert_or_assign(std::move(session_->session), std::move(d));
  session_.reset();
  for (const auto& [asked, at] : asking_) want(*at);  // in their order
}

/// The user of a lost slot has done with it. It is nobody's then who asks here, until its session has ended.
void mutex_set::let_go(doomed& d, slot_id id) {
  if (std::erase(d.lost, id) == 0) return;
  place& at = *std::exchange(slots_.find(id)->place, nullptr);
  if (d.names.empty()) d.since = now_;
  d.names.insert(at.first);
  slots_.close(id);
  at.second.slot = slot_id::none;
  forget(at);
}

void mutex_set::let_go(slot_id id) {
  for (auto& [session, d] : doomed_) let_go(d, id);
  slot* const s = slots_.find(id);
  if (!s->place) return;
  place& at = *std::exchange(s->place, nullptr);
  slots_.close(id);
  --lost_;
  at.second.slot = slot_id::none;
  at.second.standing = standing::leaving;
  leaving_.push_back(&at);
}

bool mutex_set::is_doomed(slot_id id) const {
  return std::any_of(doomed_.begin(), doomed_.end(), [id](const auto& each) {
    return std::find(each.second.lost.begin(), each.second.lost.end(), id) != each.second.lost.end();
  });
}

mutex_set::doomed_sessions::iterator mutex_set::doomed_ended(doomed_sessions::iterator at) {
  doomed& d = at->second;
  while (!d.lost.empty()) let_go(d, d.lost.back());
  for (const slot_id each : d.releasing) answer_release(each);
  const auto blocked = std::move(d.blocked);
  const auto next = doomed_.erase(at);
  for (const auto& [asked, each] : blocked) want(*each);
  return next;
}

void mutex_set::report() {
  if (held_ == 0) return;
  slots_.for_each([this](slot_id id, const slot& s) {
    if (is_held(s)) act(action::update{id, session_->lease.deadline(), suspect_});
  });
}

std::vector<core::entry> mutex_set::entries_of(slot_id id) {
  const slot* s = slots_.find(id);
  if (!s || !is_held(*s)) return {};
  return {{key_of(*s->place), session_->session, s->place->second.grant}};
}

std::string mutex_set::lock_key(slot_id id) {
  const slot* s = slots_.find(id);
  return s && is_held(*s) ? key_of(*s->place) : std::string();
}

failure mutex_set::failed(error_code code, std::string text) const {
  return {code, {std::move(text), options_.prefix, {}, {}}};
}

}  // namespace holdfast::protocol

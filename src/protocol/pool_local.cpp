#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/invariant.hpp"
#include "protocol/pool.hpp"

// Time, leases, slots and the local queue.

namespace holdfast::protocol {

void pool::settle() {
  if (closed_) {
    wake_ = never;
    return;
  }
  wake_ = never;
  expire_waiters();
  check_leases();
  check_watches();
  check_outage();
  serve();
  const std::size_t waiting = waiters_.size();
  write();
  if (waiters_.size() != waiting) serve();  // whoever stood behind one that was told no
  const std::size_t sessions = members_.size();
  retire_sessions();
  if (members_.size() != sessions && !waiters_.empty()) write();  // there is room for another one
  finish_close();
  calm_ = !closing_ && !suspect_ && !lost_ && !unresolved_ && !outage_.on() && !write_outage_.on() &&
          !create_outage_.on() && !watch_outage_.on();
  blind_ = !contested_ && !watches_everything();
}

/// After a local event: serves the queue, and says whether that was all. So it is while every slot is in a user's hands
/// here, as nothing else of what `settle` looks at has changed since it last ran, and none of its times has come.
bool pool::serve_only() {
  if (!calm_ || now_ >= wake_) return false;
  serve();
  if (in_use_ != limit_ || !all_in_use()) return false;
  if (blind_ && must_know_who_comes()) return false;
  wake_at(waiters_.first_deadline());
  check_invariant("nothing but the queue was to be served", [this] { return settled(); });
  return true;
}

/// Whether all that there is, is in users' hands here: then nothing is asked of the cluster.
bool pool::all_in_use() {
  if (in_use_ < limit_) return false;
  // With a lower limit than before, some of what we have may be too much; and what was taken away may stand in the
  // queue.
  if ((lost_ || in_use_ != members_.size()) && (!spares_.empty() || any_standing(standing::waiting))) return false;
  return waiters_.empty() || (!waiters_.front().once && waiters_.front().count <= limit_);
}

/// Whether `settle` would do nothing; for the invariant above.
bool pool::settled() {
  const time_point wake = wake_;
  const std::size_t actions = out_->size();
  settle();
  return std::exchange(wake_, wake) >= wake && out_->size() == actions;
}

void pool::expire_waiters() {
  while (waiters_.first_deadline() != never && due(waiters_.first_deadline())) {
    const ticket expired = waiters_.first_to_expire();
    waiters_.remove(expired);
    act(action::deny{expired});
  }
}

void pool::check_leases() {
  suspect_ = lost_ = false;
  for (auto at = members_.begin(); at != members_.end();) {
    member& m = (at++)->second;
    if (m.phase == phase::creating) continue;
    if (!m.lost && due(m.lease.deadline())) {
      node_may_be_gone(m.standing);
      if (m.slot == slot_id::none) {
        drop(m, loss_reason::none, failed(error::timed_out, "the session could not be renewed in time"));
        continue;
      }
      lose(m.slot, loss_reason::lease_expired, why_expired(m));
    }
    if (m.lost) {
      lost_ = true;
      const bool lingers = m.slot == slot_id::none && due(m.idle_since + options_.give_up_after);
      if (lingers || due(m.lease.over_at())) drop(m, loss_reason::none);
      continue;
    }
    if (is_stuck(m)) {
      drop(m, loss_reason::none, failed(error::timed_out, "the slot could not be given back: its session ends"));
      continue;
    }
    renew_when_due(m);
    const bool suspect = due(m.lease.suspect_at()) || watch_outage_.on();
    suspect_ = suspect_ || suspect;
    if (suspect != m.suspect) {
      m.suspect = suspect;
      if (m.slot != slot_id::none) report(m);
    }
  }
}

/// Whether what it holds should have gone back to the cluster long ago.
bool pool::is_stuck(const member& m) {
  if (m.releasing != slot_id::none) return due(m.idle_since + options_.give_up_after);
  const bool unwanted = m.slot == slot_id::none && m.standing != standing::absent && waiters_.empty();
  return unwanted && write_outage_.on() && due(std::max(m.idle_since, write_outage_.since()) + options_.give_up_after);
}

void pool::check_outage() {
  if (waiters_.empty() || all_in_use()) return;
  const auto fail_waiters_since = [this](time_point since, const failure& why) {
    while (!waiters_.empty() && due(std::max(since, waiters_.front().came) + options_.give_up_after)) {
      act(action::fail{waiters_.front().ticket, why});
      waiters_.pop();
    }
  };
  for (const outage* o : {&outage_, &write_outage_, &create_outage_, &watch_outage_})
    if (o->on()) fail_waiters_since(o->since(), o->last());
  const time_point asked = first_unanswered();
  if (asked == never || waiters_.empty())
    overdue_since_ = never;
  else if (is_overdue(std::max(asked, waiters_.front().came) + options_.give_up_after, options_.give_up_after / 10))
    fail_waiters_since(asked, failed(error::timed_out, "Consul does not answer"));
}

/// When the oldest request was sent that waiters wait for, blocking queries left out.
time_point pool::first_unanswered() const {
  time_point first = txn_ ? txn_->sent_at : never;
  if (read_ != 0) first = std::min(first, read_at_);
  for (const auto& [id, m] : members_)
    if (m.phase == phase::creating) first = std::min(first, m.asked_at);
  return first;
}

/// While nobody watches, nobody gets a slot: it would be lost at once.
bool pool::serving() { return !watch_outage_.on() || !due(watch_outage_.since() + options_.outage_grace); }

void pool::serve() {
  while (!waiters_.empty() && !spares_.empty() && serving()) {
    const auto usable = std::count_if(spares_.begin(), spares_.end(), [&](const member* m) { return is_usable(*m); });
    if (static_cast<std::size_t>(usable) < waiters_.front().count) {
      // What is kept for it goes back when its tenure ends.
      for (const member* m : spares_)
        if (contested_ && m->handoffs > 0) due(m->granted_at + options_.tenure);
      return;
    }
    hand_over(waiters_.front());
    waiters_.pop();
  }
}

/// Whether the slot has been used here for long enough that somebody elsewhere should have it, or nobody is to have it.
bool pool::spent(const member& m) const {
  if (m.lost || barred(m)) return true;
  return m.handoffs > 0 && ((contested_ && now_ >= m.granted_at + options_.tenure) || is_courtesy_due());
}

const slot_number* pool::number_of(const member& m) const {
  return options_.numbered ? view_.now().number_of(m.session) : nullptr;
}

/// Whether an operator wants it back: to hand it on here would be to grant it.
bool pool::barred(const member& m) const {
  const lock_record& record = view_.now().record;
  if (const slot_number* const its = number_of(m); its && its->number >= limit_) return true;
  return record.closed || over_limit_ || (!record.revoked.empty() && record.revokes(m.session));
}

void pool::hand_over(const waiter& w) {
  const slot_id id = open_slot();
  slot& s = *find(id);
  fencing_token token;
  time_point deadline = never;
  std::vector<std::uint32_t> numbers;
  for (auto at = spares_.begin(); s.members.size() < w.count;) {
    member& m = **at;
    if (!is_usable(m)) {
      ++at;
      continue;
    }
    at = spares_.erase(at);
    free_of_slot(m.releasing);
    m.slot = id;
    m.suspect = m.lingers = false;
    token = std::max(token, fencing_token{m.grant, m.handoffs++});
    deadline = std::min(deadline, m.lease.deadline());
    if (const slot_number* const its = number_of(m)) numbers.push_back(its->number);
    s.members.push_back(&m);
  }
  in_use_ += w.count;
  act(action::grant{w.ticket, id, token, deadline, std::move(numbers)});
}

std::vector<core::entry> pool::entries_of(slot_id id) {
  std::vector<entry> entries;
  if (const slot* s = find(id); s && s->held)
    for (const member* m : s->members) entries.push_back({entry_key(m->session), m->session, m->grant});
  return entries;
}

void pool::give_up(slot& s, slot_id id) {
  s.held = false;
  in_use_ -= static_cast<std::uint32_t>(s.members.size());
  s.releasing = static_cast<std::uint32_t>(s.members.size());
  for (member* m : s.members) {
    m->slot = slot_id::none;
    m->releasing = id;
    m->idle_since = now_;
    spares_.push_back(m);
  }
}

void pool::lose(slot_id id, loss_reason reason, failure why) {
  slot* s = find(id);
  if (!s || !s->held) return;
  s->held = false;
  s->lost = true;
  for (member* m : s->members) m->lost = true;
  act(action::lose{id, reason, std::move(why)});
}

/// The user of a lost slot has done with it: now its sessions may end, and others come.
void pool::let_go(slot& s, slot_id id) {
  s.lost = false;
  slots_.close(id);
  in_use_ -= static_cast<std::uint32_t>(s.members.size());
  for (member* m : s.members) {
    m->slot = slot_id::none;
    m->idle_since = now_;
    if (m->standing == standing::holding) spares_.push_back(m);
  }
}

void pool::let_go_of_all() {
  slots_.for_each([this](slot_id id, slot& s) {
    if (s.lost) let_go(s, id);
  });
}

void pool::lose_all(loss_reason reason, const failure& why) {
  if (in_use_ == 0) return;
  slots_.for_each([&](slot_id id, slot& s) {
    if (s.held) lose(id, reason, why);
  });
}

void pool::report(const member& m) {
  const slot* s = find(m.slot);
  action::update news{m.slot, never, false};
  for (const member* each : s->members) {
    news.deadline = std::min(news.deadline, each->lease.deadline());
    news.suspect = news.suspect || each->suspect;
  }
  act(news);
}

void pool::free_of_slot(slot_id& releasing, const failure* why) {
  if (releasing == slot_id::none) return;
  const slot_id id = std::exchange(releasing, slot_id::none);
  if (--find(id)->releasing != 0) return;
  slots_.close(id);
  given_back_at_ = now_;
  // In place: it comes with each handoff, and is large.
  auto& done = std::get<action::released>(out_->emplace_back(std::in_place_type<action::released>));
  done.slot = id;
  if (why) done.error = *why;
}

void pool::drop(member& m, loss_reason reason, failure why) {
  node_may_be_gone(m.standing);
  if (slot* const s = m.slot == slot_id::none ? nullptr : find(m.slot)) {
    lose(m.slot, reason, why);
    std::erase(s->members, &m);
    --in_use_;
    if (s->members.empty()) {
      s->lost = false;
      slots_.close(m.slot);
    }
  }
  std::erase(spares_, &m);
  if (txn_) std::erase(txn_->movers, &m);
  if (unresolved_) std::erase(unresolved_->movers, &m);
  // Never used again, whatever becomes of the requests that named it: a destroyed session makes them harmless.
  by_session_.erase(m.session);
  if (m.standing != standing::absent || m.phase == phase::moving) former_.insert(m.session);
  doomed& d = doomed_.insert_or_assign(std::move(m.session), doomed{}).first->second;
  d.until = now_ + 2 * options_.ttl;
  d.releasing = m.releasing;
  d.answer_by = m.lease.deadline();
  d.why = std::move(why);
  members_.erase(m.id);
  if (!d.why.code) free_of_slot(d.releasing);
}

void pool::retire_sessions() {
  for (auto at = members_.begin(); at != members_.end();) {
    member& m = (at++)->second;
    if (m.phase != phase::ready || m.standing != standing::absent) continue;
    if (m.lost && m.slot != slot_id::none) continue;
    if (closing_ || m.lost || due(m.idle_since + options_.session_idle)) drop(m, loss_reason::none);
  }
  for (auto at = doomed_.begin(); at != doomed_.end();) {
    doomed& d = at->second;
    if (d.releasing != slot_id::none && due(d.answer_by)) free_of_slot(d.releasing, &d.why);
    at = pursue(d, at->first) ? std::next(at) : doomed_.erase(at);
  }
}

void pool::finish_close() {
  if (!closing_) return;
  // What goes back has its time, too, however long its users have taken.
  if (in_use_ == 0 && !std::exchange(nothing_in_use_, true)) close_deadline_ = now_ + options_.give_up_after;
  const bool clean = members_.empty() && doomed_.empty() && !txn_ && !unresolved_ && !owes_a_grant_;
  if (!clean && !due(close_deadline_)) return;
  lose_all(loss_reason::closed);
  if (in_use_ != 0) {  // whose users have had their time to let go
    let_go_of_all();
    nothing_in_use_ = true;
    close_deadline_ = now_ + options_.give_up_after;
    wake_at(close_deadline_);
    write();
    return retire_sessions();
  }
  const failure why = clean ? failure{} : failed(error::timed_out, "sessions are left to expire");
  for (auto& [id, m] : members_) free_of_slot(m.releasing, &why);
  for (auto& [session, d] : doomed_) free_of_slot(d.releasing, &why);
  closed_ = true;
  act(action::closed{why});
}

/// Whoever wants more than there are: not even a lower limit, lately, lets it block those behind it. False: that must
/// be looked up first.
bool pool::fail_too_wide() {
  while (!waiters_.empty() && waiters_.front().count > limit_) {
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

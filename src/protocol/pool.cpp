#include "protocol/pool.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

pool::pool(pool_options options, std::uint64_t seed)
    : core(seed),
      options_(std::move(options)),
      entries_(protocol::entries_of(options_)),
      numbers_(numbers_of(entries_)),
      limit_(options_.limit) {}

void pool::step(pool_event&& e, time_point now, pool_actions& out) {
  begin_step(now, out);
  const bool local = std::visit(
      [this]<class Event>(Event& concrete) {
        on(concrete);
        return std::is_same_v<Event, event::acquire> || std::is_same_v<Event, event::cancel> ||
               std::is_same_v<Event, event::release>;
      },
      e);
  if (!local || !serve_only()) settle();
  end_step();
}

void pool::on(event::acquire& e) {
  if (closing_) return act(action::fail{e.ticket, failed(error::closed, "the semaphore is closed")});
  // A limit that is adopted may have changed: whether there are enough, a look at the record says.
  if (e.count == 0 || (e.count > limit_ && !options_.adopt) || e.count > acquire_max)
    return act(action::fail{e.ticket, too_many(e.count)});
  if (waiters_.size() >= options_.waiters_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "the local queue is full")});
  if (e.deadline <= now_) {  // no time to wait: one look
    e.once = true;
    e.deadline = never;
  }
  // A single look does not overtake those who wait here already.
  if (e.once && waiters_.patient() != 0) return act(action::deny{e.ticket});
  if (waiters_.empty()) {
    // What failed before its time does not keep it waiting.
    for (outage* o : {&outage_, &write_outage_, &create_outage_}) o->retry_now();
    if (now_ < given_back_at_ + options_.linger) returns_soon_ = true;
  }
  waiters_.push({e.ticket, e.count, e.once, e.deadline, now_, last_request_, 0});
}

void pool::on(event::cancel& e) {
  if (waiters_.remove(e.ticket))
    act(action::fail{e.ticket,
                     {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void pool::on(event::release& e) {
  slot* s = find(e.slot);
  if (!s) return;
  if (s->lost) return let_go(*s, e.slot);
  if (s->held) give_up(*s, e.slot);
}

void pool::on(event::close& e) {
  closing_ = true;
  fail_waiters(failed(error::closed, "the semaphore was closed"));
  if (e.revoke) {
    lose_all(loss_reason::closed);
    close_deadline_ = std::min(close_deadline_, now_ + options_.give_up_after);
  }
  if (e.at_once) {
    let_go_of_all();
    nothing_in_use_ = true;
    close_deadline_ = now_;
  }
}

void pool::on(event::session_created& e) {
  const auto at = members_.find(e.member);
  if (at == members_.end() || at->second.phase != phase::creating) return;
  member& m = at->second;
  if (e.session.empty()) {
    if (registers_node(m, e.error, options_.node)) return;
    e.error = with_rules(std::move(e.error), options_.node);
    const time_point asked_at = m.asked_at;
    members_.erase(at);
    if (is_final(e.error.code) && e.error.code != error::missing_node)
      fail_waiters(e.error);
    else
      create_outage_.failed(std::move(e.error), now_, random_, asked_at);
    return;
  }
  create_outage_.over();
  created(m, std::move(e.session), lease(options_.ttl, options_.lease_margin));
  by_session_.emplace(m.session, &m);
  m.phase = phase::ready;
}

void pool::on(event::node_registered& e) {
  registering_ = false;
  std::vector<member_id> waiting;
  for (const auto& [id, m] : members_)
    if (m.awaits_node) waiting.push_back(id);
  for (const member_id id : waiting) {
    event::session_created failed{id, {}, e.error};
    if (e.error.code)
      on(failed);
    else
      create_again(members_.at(id));
  }
}

void pool::on(event::session_renewed& e) {
  const auto at = members_.find(e.member);
  if (at == members_.end()) return;
  member& m = at->second;
  if (m.lost) return;
  const time_point deadline = m.lease.deadline();
  const bool is_idle = m.phase == phase::ready && m.standing == standing::absent;
  if (!renewed(m, e)) {
    if (is_idle) return drop(m, loss_reason::none);
    return read_prefix();
  }
  if (m.lease.deadline() != deadline && m.slot != slot_id::none) report(m);
  // On its way here a request may have been repeated, and its copy may come late: a join after the release. One look
  // shows that of all sessions.
  if (is_idle && e.outcome == event::renewal::renewed && due(prefix_read_at_ + options_.ttl / 4)) read_prefix();
}

void pool::on(event::session_destroyed& e) {
  const auto at = doomed_.find(e.session);
  if (at == doomed_.end()) return;
  if (e.gone) {
    free_of_slot(at->second.releasing);
    doomed_.erase(at);
  } else {
    not_destroyed(at->second);
  }
}

void pool::on(event::prefix_listed& e) {
  const std::optional<watch> watched = take_watch(e.id);
  if (!watched && e.id != read_) return;  // a watch that was stopped
  if (!watched) read_ = 0;
  // Without an index there is nothing to watch from: such a watch would answer at once, again and again.
  if (!e.error.code && e.index == 0) e.error = failed(error::malformed_reply, "a listing came without an index");
  if (e.error.code) {
    if (watched) return on_watch_failed(*watched, std::move(e.error));
    if (is_final(e.error.code)) fail_waiters(e.error);
    outage_.failed(std::move(e.error), now_, random_,
                   watched ? now_ : read_at_);  // in either case: what goes back to the cluster must look again
    return;
  }
  if (watched) watch_outage_.over();
  outage_.over();
  adopt(snapshot_of(std::move(e.listing), e.index), e.id);
}

void pool::on(event::key_watched& e) {
  if (e.id == read_) {
    read_ = 0;
    if (e.error.code) return outage_.failed(std::move(e.error), now_, random_, read_at_);
    outage_.over();
    const bool tells = unresolved_ && unresolved_->by_record && e.id > unresolved_->looked_after;
    const std::uint64_t index = e.pair ? e.pair->modify_index : 0;
    saw_record(std::move(e.pair));
    if (tells) resolve_by_record(index);
    return;
  }
  const std::optional<watch> asked = take_watch(e.id);
  if (!asked) return;
  if (e.error.code) return on_watch_failed(*asked, std::move(e.error));
  watch_outage_.over();
  if (asked->key == options_.lock_key)
    saw_record(std::move(e.pair));
  else if (asked->key.starts_with(numbers_))
    saw_number(*asked, std::move(e.pair));
  else
    saw_entry(*asked, std::move(e.pair));
}

void pool::on(event::value_written& e) {
  if (!e.withdrawn)
    value_before_ = std::exchange(value_, std::move(e.value));
  else if (value_ == e.value)
    value_ = value_before_;
}

void pool::on(event::txn_done& e) {
  if (!txn_ || txn_->id != e.id) return;
  pending_txn txn = *std::move(txn_);
  txn_.reset();
  const time_point sent_at = txn.sent_at;
  switch (e.outcome) {
    case event::outcome::applied:
      outage_.over();
      write_outage_.over();
      watch_outage_.retry_now();
      conflicts_ = 0;
      applied(std::move(txn), std::move(e.results));
      break;
    case event::outcome::refused:
      outage_.over();
      refused(std::move(txn), e.refusals);
      break;
    case event::outcome::not_sent:
      settle_moves(txn, false);
      refresh();
      if (is_final(e.error.code)) fail_waiters(e.error);
      write_outage_.failed(std::move(e.error), now_, random_, sent_at);
      break;
    case event::outcome::unknown:
      owes_a_grant_ = owes_a_grant_ || txn.frees;
      txn.why = e.error;
      txn.looked_after = last_request_;
      unresolved_ = std::move(txn);
      view_.mark_stale();
      write_outage_.failed(std::move(e.error), now_, random_, sent_at);
      break;
  }
}

const pool::member* pool::find(std::string_view session) const {
  const auto at = by_session_.find(session);
  return at == by_session_.end() ? nullptr : at->second;
}

bool pool::is_ours(std::string_view session) const { return doomed_.contains(session) || find(session); }

bool pool::passed_over(std::string_view session) const {
  const auto seen = indulged_.find(session);
  return seen != indulged_.end() && seen->second.passed_over;
}

bool pool::any_standing(standing where) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& m) { return m.second.standing == where; });
}

/// Whether it names a session of ours that did not hold.
bool pool::grants_us(const lock_record& record) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& m) {
    return m.second.standing != standing::holding && record.names(m.second.session);
  });
}

/// By the record, and to those who wait here.
bool pool::is_any_free() const {
  const lock_record& record = view_.now().record;
  return !record.closed && record.holders.size() < limit_ && any_standing(standing::waiting);
}

slot_id pool::open_slot() {
  const auto [id, s] = slots_.open();
  s->held = true;
  s->lost = false;
  s->revoked = false;
  s->members.clear();
  return id;
}

std::string pool::entry_text() const {
  if (!options_.wall_offset) return options_.description;
  const entry_lease lease{options_.ttl, options_.lease_margin, options_.node};
  return with_stamp(options_.description, now_.time_since_epoch() + *options_.wall_offset, lease);
}

failure pool::too_many(std::uint32_t count) const {
  return failed(error::too_many_slots,
                "cannot acquire " + std::to_string(count) + " slots at once from a limit of " + std::to_string(limit_));
}

failure pool::failed(error_code code, std::string text) const {
  return {code, {std::move(text), options_.lock_key, {}, {}}};
}

}  // namespace holdfast::protocol

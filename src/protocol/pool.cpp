// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

pool::pool(pool_options options, std::uint64_t seed)
    : core(seed), options_(std::move(options)), keys_(options_), members_(options_) {
  situation_.limit = options_.limit;
}

void pool::step(core_event&& e, time_point now, core_actions& out) {
  ctx_.begin(now, out);
  const bool local = std::visit(
      [this]<class Event>(Event& concrete) {
        on(concrete);
        return std::is_same_v<Event, event::acquire> || std::is_same_v<Event, event::cancel> ||
               std::is_same_v<Event, event::release>;
      },
      e);
  if (!local || !serve_only()) advance();
  if (options_.single && was_asked_ && waiters_.empty() && !closing_.has_begun()) {
    closing_.begin();
    advance();
  }
  only_queues_ = last_.calm && slots_.in_use() == limit();
  ctx_.end();
}

void pool::on(event::acquire& e) {
  was_asked_ = true;
  if (closing_.has_begun()) return act(action::fail{e.ticket, failed(error::closed, "the semaphore is closed")});
  // With `use_recorded_limit`, another limit may be recorded than the one known here. So a later read of the record
  // decides whether there are enough slots.
  if (e.count == 0 || (e.count > limit() && !options_.use_recorded_limit) || e.count > acquire_max)
    return act(action::fail{e.ticket, too_many(e.count)});
  if (waiters_.size() >= options_.waiters_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "the local queue is full")});
  if (e.deadline <= now()) {  // no time to wait: one attempt
    e.once = true;
    e.deadline = never;
  }
  // An acquire that does not wait does not overtake the local waiters.
  if (e.once && waiters_.patient() != 0) return act(action::deny{e.ticket});
  if (waiters_.empty()) {
    // Failures from before this acquire do not delay it.
    for (outage* o : {&read_.failures, &write_.failures}) o->retry_now();
    members_.retry_now();
    if (now() < slots_.given_back_at() + options_.rejoin_window) returns_soon_ = true;
  }
  waiters_.push({e.ticket, e.count, e.once, e.deadline, now(), ctx_.last_request(), 0});
}

void pool::on(event::cancel& e) {
  if (waiters_.remove(e.ticket))
    act(action::fail{e.ticket,
                     {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void pool::on(event::release& e) {
  slot* s = slots_.find(e.slot);
  if (!s) return;
  if (s->lost) return slots_.let_go(ctx_, *s, e.slot, members_);
  if (s->held) slots_.give_up(ctx_, *s, e.slot, members_);
}

void pool::on(event::close& e) {
  closing_.begin();
  fail_waiters(failed(error::closed, "the semaphore was closed"));
  if (e.lose_slots) {
    lose_all(loss_reason::closed);
    closing_.within(ctx_, options_.give_up_after);
  }
  if (e.at_once) {
    slots_.let_go_of_all(ctx_, members_);
    closing_.begin_at_once(ctx_);
  }
}

void pool::on(event::session_created& e) {
  if (members_.answered(ctx_, e, closing_.is_over()) == creation::refused) fail_waiters(e.error);
}

void pool::on(event::node_registered& e) {
  for (const member_id each : members_.registered(ctx_, e)) {
    event::session_created failed{each, {}, e.error};
    on(failed);
  }
}

void pool::on(event::session_renewed& e) {
  member* const m = members_.find(e.member);
  if (!m || m->lost) return;
  const time_point deadline = m->lease.deadline();
  const bool is_idle = m->is_ready() && m->standing == standing::absent;
  if (!m->renewed(ctx_, e)) {
    if (is_idle) return drop(*m, loss_reason::none);
    // One read shows what has become of all sessions. If this answer came too soon after the last read, the next
    // attempt to renew the session leads to another.
    if (now() >= read_.everything_at() + facts_now().everything_pause()) read_prefix();
    return;
  }
  if (m->lease.deadline() != deadline && m->slot != slot_id::none) report(*m);
  // If Consul has just renewed the session, its node stands. So our ending the session says nothing about the node.
  // While sessions are being created, a request for several slots may need this one, too.
  if (is_idle && e.outcome == event::renewal::renewed && members_.creating() == 0 && is_idle_for_too_long(*m) &&
      m->asked_at >= m->idle_since + options_.session_idle_timeout)
    return end(*m, loss_reason::none);
  // A request may be repeated on its way to Consul, and the copy may be applied late: a join after the release. One
  // read shows this for all sessions.
  const bool is_renewed = e.outcome == event::renewal::renewed;
  if (is_idle && is_renewed && due_or_wake(read_.everything_at() + options_.ttl / 4)) read_prefix();
}

void pool::on(event::maker_gone& e) {
  if (members_.is_ours(e.session)) return;
  gone_.add(ctx_, std::move(e.session), options_.gone_delay, options_.ttl);
}

void pool::on(event::session_destroyed& e) {
  if (gone_.destroyed(ctx_, e)) return;
  const auto at = members_.destroyed(ctx_, e);
  if (at == members_.ending().end()) return;
  slots_.free_member(ctx_, at->second.gives_back);
  members_.remove(at);
}

void pool::on(event::prefix_listed& e) {
  const std::optional<watch> watched = watches_.take(e.id);
  if (!watched && !read_.is(e.id)) return;  // a watch that was stopped
  const time_point asked_at = watched ? watched->asked_at : read_.sent_at();
  if (!watched) read_.done();
  // A contender that the token may not read would be taken for dead. A mutex is the exception: keys that begin with its
  // key may belong to others, and the key itself names the holder.
  if (!e.error.code && e.filtered && options_.form != record_form::session)
    e.error = failed(error::permission_denied, "the ACL token may not read all keys below the prefix");
  // Without an index there is nothing to watch from: such a watch would answer at once, again and again.
  if (!e.error.code && e.index == 0) e.error = failed(error::malformed_reply, "a listing came without an index");
  if (e.error.code) {
    if (watched) return on_watch_failed(*watched, std::move(e.error));
    if (is_final(e.error.code)) fail_waiters(e.error);
    return read_.failures.failed(std::move(e.error), now(), ctx_.random(), read_.sent_at());
  }
  if (watched) {
    watches_work();
    watches_.everything_seen_at = now();
  }
  read_.failures.over();
  take_listing(snapshot_of(std::move(e.listing), e.index), e.id, asked_at);
}

void pool::on(event::key_watched& e) {
  if (read_.is(e.id)) {
    read_.done();
    if (e.error.code) return read_.failures.failed(std::move(e.error), now(), ctx_.random(), read_.sent_at());
    read_.failures.over();
    const bool tells = write_.is_told_by(e.id) && write_.current().by_record;
    const std::uint64_t index = e.pair ? e.pair->modify_index : 0;
    saw_record(std::move(e.pair));
    if (tells) resolve_by_record(index);
    return;
  }
  const std::optional<watch> asked = watches_.take(e.id);
  if (!asked) return;
  if (e.error.code) return on_watch_failed(*asked, std::move(e.error));
  watches_work();
  if (asked->key == keys_.lock)
    saw_record(std::move(e.pair));
  else if (asked->key.starts_with(keys_.numbers))
    saw_number(*asked, std::move(e.pair));
  else
    saw_entry(*asked, std::move(e.pair), e.wait == duration() ? asked->wait : e.wait);
}

void pool::on(event::node_seen& e) {
  if (!read_.is(e.id)) return;
  read_.done();
  others_.saw_node(ctx_, node_asked_, e, options_);
}

void pool::on(event::txn_done& e) {
  if (const auto grants = accepting_.done(e.id)) return accepted(*grants, e);
  std::optional<transaction> txn = write_.done(e.id);
  if (!txn) return;
  const time_point sent_at = txn->sent_at;
  switch (e.outcome) {
    case event::outcome::applied:
      read_.failures.over();
      write_.failures.over();
      watches_.failures.retry_now();
      write_.applied();
      return applied(*std::move(txn), std::move(e.results));
    case event::outcome::refused:
      read_.failures.over();
      return refused(*std::move(txn), e.refusals);
    case event::outcome::not_sent:
      if (txn->returned.empty()) {
        end_moves(*txn, false);
      } else {  // the outcome of the write before it is still open
        view_.mark_stale();
        write_.doubt(ctx_, *txn);
      }
      refresh();
      if (is_final(e.error.code)) fail_waiters(e.error);
      break;
    case event::outcome::unknown:
      if (txn->owes) duty_.now_owes(true);
      txn->why = e.error;
      write_.doubt(ctx_, *std::move(txn));
      view_.mark_stale();
      break;
  }
  write_.failures.failed(std::move(e.error), now(), ctx_.random(), sent_at);
}

failure pool::too_many(std::uint32_t count) const {
  std::string text = "cannot acquire " + std::to_string(count) + " slots at once";
  if (count == 0 || count > limit()) text += " from a limit of " + std::to_string(limit());
  if (count > acquire_max) text += "; " + std::to_string(acquire_max) + " is the most for one acquire";
  return failed(error::too_many_slots, std::move(text));
}

failure pool::failed(error_code code, std::string text) const {
  return {code, {std::move(text), options_.lock_key, {}, {}}};
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/pool.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "protocol/pool/write_outcome.hpp"
#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace {

/// While requests reach several Consuls in turn, acquires lead to a read at most once in this time.
constexpr duration turns_read_pause = std::chrono::milliseconds(100);

}  // namespace

pool::pool(pool_options options, std::uint64_t seed) : core(seed), parts_(std::move(options)) {}

void pool::step(core_event&& e, time_point now, core_actions& out) {
  const bool only_joins = only_queues_ && now < wake() && !parts_.waiters.empty();
  ctx_.begin(now, out);
  if (auto* const joins = only_joins ? std::get_if<event::acquire>(&e) : nullptr) return join(*joins);
  const bool local = std::visit(
      [this]<class Event>(Event& concrete) {
        if (is_answer(concrete)) life_.heard(ctx_.now());
        on(concrete);
        return std::is_same_v<Event, event::acquire> || std::is_same_v<Event, event::cancel> ||
               std::is_same_v<Event, event::release>;
      },
      e);
  if (!local || !serve_only()) advance();
  if (parts_.options.single && was_asked_ && parts_.waiters.empty() && !parts_.closing.has_begun()) {
    parts_.closing.begin();
    advance();
  }
  only_queues_ = last_.calm && parts_.slots.in_use() == limit();
  ctx_.end();
}

std::optional<queue_state> pool::queue(std::size_t holders_max) const {
  if (parts_.view.state() == view::state::none) return {};
  const snapshot& now = parts_.view.now();
  const snapshot::matches matches = now.match();
  queue_state result;
  result.limit = limit();
  result.held = now.record.holders.size();
  result.free = now.record.closed || result.held >= result.limit ? 0 : result.limit - result.held;
  result.free += parts_.slots.spares().size();
  std::size_t others = 0;
  for (std::size_t i = 0; i < now.contenders.size(); ++i) {
    const contender& each = now.contenders[i];
    if (matches.named[i]) {
      if (result.holders.size() < holders_max) result.holders.push_back(as_holder(each));
      if (const member* const m = parts_.members.find(each.session); m && m->slot != slot_id::none) ++result.held_here;
    } else if (!parts_.members.is_ours(each.session)) {
      ++others;
    } else if (!result.place) {
      const bool sees_all = now.complete_to >= each.create_index;
      result.place = others + (sees_all ? 0 : now.unseen) + 1;
    }
  }
  result.before = parts_.waiters.size() + (result.place ? *result.place - 1 : others + now.unseen);
  return result;
}

queue_state::holder pool::as_holder(const contender& entry) const {
  queue_state::holder its{entry.session, entry.value, {}};
  if (!entry.grantable()) return its;  // entries of other clients have no format of ours
  const entry_value details = parse_entry_value(entry.value);
  its.description = details.description;
  if (!details.since_1970 || !parts_.options.wall_offset) return its;
  const duration since_1970 = now().time_since_epoch() + *parts_.options.wall_offset;
  // Clocks disagree, so the difference may be negative.
  its.age = std::max(std::chrono::duration_cast<std::chrono::seconds>(since_1970) - *details.since_1970,
                     std::chrono::seconds(0));
  return its;
}

void pool::on(event::acquire& e) {
  auto& [count, once, deadline] = e.terms;
  if (!std::exchange(was_asked_, true)) {
    const core_trust& before = parts_.options.before;
    parts_.read_back.go_on_from(ctx_, parts_.news, before.contradictions, before.contradicted_at);
    parts_.turns.go_on(ctx_, parts_.news, before.distrusts_until);
  }
  if (parts_.closing.has_begun()) return act(action::fail{e.ticket, failed(error::closed, "the semaphore is closed")});
  // With `use_recorded_limit`, another limit may be recorded than the one known here. So a later read of the record
  // decides whether there are enough slots.
  if (count == 0 || (count > limit() && !parts_.options.use_recorded_limit) || count > acquire_max)
    return act(action::fail{e.ticket, parts_.too_many(count)});
  if (parts_.waiters.size() >= parts_.options.waiters_max)
    return act(action::fail{e.ticket, failed(error::too_many_waiters, "the local queue is full")});
  if (parts_.turns.stands()) {
    if (now() >= parts_.read.everything_at() + turns_read_pause) parts_.read_everything(ctx_);  // is it still so?
    return act(action::fail{e.ticket, parts_.turns.why(parts_.options)});
  }
  if (deadline <= now()) {  // no time to wait, as with try_acquire_for(0): one attempt
    once = true;
    deadline = never;
  }
  // An acquire that does not wait does not overtake the local waiters.
  if (once && parts_.waiters.patient() != 0) return end_without_slot(ctx_, e.ticket, why_unavailable());
  if (parts_.waiters.empty()) {
    // Failures from before this acquire do not delay it.
    parts_.read.retry_now();
    parts_.write.retry_now();
    parts_.members.retry_now();
    if (now() < parts_.slots.given_back_at() + parts_.options.rejoin_window) writer_.user_returns_soon();
  }
  parts_.waiters.push({e.ticket, e.terms, now(), ctx_.last_request(), 0});
}

void pool::on(event::cancel& e) {
  if (parts_.waiters.remove(e.ticket))
    act(action::fail{e.ticket,
                     {error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}}});
}

void pool::on(event::release& e) {
  slot* s = parts_.slots.find(e.slot);
  if (!s) return;
  if (s->lost) return parts_.slots.let_go(ctx_, *s, e.slot, parts_.members);
  if (s->held) parts_.slots.give_up(ctx_, *s, e.slot, parts_.members);
}

void pool::on(event::close& e) {
  parts_.closing.begin();
  parts_.waiters.fail_all(ctx_, failed(error::closed, "the semaphore was closed"));
  if (e.lose_slots) {
    parts_.slots.lose_all(ctx_, parts_.members, loss_reason::closed);
    parts_.closing.within(ctx_, parts_.options.give_up_after);
  }
  if (e.at_once) {
    parts_.slots.let_go_of_all(ctx_, parts_.members);
    parts_.closing.begin_at_once(ctx_);
  }
}

void pool::on(event::session_created& e) {
  if (parts_.members.answered(ctx_, e, parts_.closing.is_over()) == creation::refused)
    parts_.waiters.fail_all(ctx_, e.error);
}

void pool::on(event::node_registered& e) {
  for (const member_id each : parts_.members.registered(ctx_, e)) {
    event::session_created failed{each, {}, e.error};
    on(failed);
  }
}

void pool::on(event::session_renewed& e) {
  member* const m = parts_.members.find(e.member);
  if (!m || m->lost) return;
  const time_point deadline = m->lease.deadline();
  const bool is_idle = m->is_ready() && m->standing == standing::absent;
  if (!m->renewed(ctx_, e)) {
    if (is_idle) return care_.drop(ctx_, parts_, *m, loss_reason::none);
    // One read shows what has become of all sessions. If this answer came too soon after the last read, the next
    // attempt to renew the session leads to another.
    if (now() >= parts_.read.everything_at() + facts_now().everything_pause()) parts_.read_everything(ctx_);
    return;
  }
  if (m->lease.deadline() != deadline && m->slot != slot_id::none) parts_.slots.report(ctx_, *m, parts_.members);
  // If Consul has just renewed the session, its node stands. So our ending the session says nothing about the node.
  // While sessions are being created, a request for several slots may need this one, too.
  if (is_idle && e.outcome == event::renewal::renewed && parts_.members.creating() == 0 &&
      due_or_wake(care_.idle_until(parts_.options, *m)) && m->asked_at >= care_.idle_until(parts_.options, *m))
    return care_.end(ctx_, parts_, *m, loss_reason::none);
  // A request may be repeated on its way to Consul, and the copy may be applied late: a join after the release. One
  // read shows this for all sessions.
  const bool is_renewed = e.outcome == event::renewal::renewed;
  if (is_idle && is_renewed && due_or_wake(parts_.read.everything_at() + parts_.options.ttl / 4))
    parts_.read_everything(ctx_);
}

void pool::on(event::session_destroyed& e) {
  if (taking_.destroyed(ctx_, e)) return;
  const auto at = parts_.members.destroyed(ctx_, e);
  if (at == parts_.members.ending().end()) return;
  parts_.slots.free_member(ctx_, at->second.gives_back);
  parts_.members.remove(at);
}

void pool::on(event::prefix_listed& e) {
  cluster_observer sees = observe();
  const std::optional<watch> watched = parts_.watches.take(e.id);
  if (!watched && !parts_.read.is(e.id)) return;  // a watch that was stopped
  const time_point asked_at = watched ? watched->asked_at : parts_.read.sent_at();
  if (!watched) parts_.read.done();
  // A contender that the token may not read would be taken for dead. A mutex is the exception: keys that begin with its
  // key may belong to others, and the key itself names the holder.
  if (!e.error.code && e.filtered && parts_.options.form != record_form::session)
    e.error = failed(error::permission_denied, "the ACL token may not read all keys below the prefix");
  // Without an index there is nothing to watch from: such a watch would answer at once, again and again.
  if (!e.error.code && e.index == 0) e.error = failed(error::not_consul, "a listing came without an index");
  if (e.error.code) {
    if (watched) return sees.on_watch_failed(*watched, std::move(e.error));
    if (is_final(e.error.code)) parts_.waiters.fail_all(ctx_, e.error);
    return parts_.read.failed(ctx_, std::move(e.error), parts_.read.sent_at());
  }
  if (watched) {
    sees.watches_work();
    parts_.watches.saw_everything(now());
    parts_.watches.answered(ctx_, parts_.news, *watched, e.index);
  }
  parts_.read.works();
  const auto lock = std::find_if(e.listing.begin(), e.listing.end(),
                                 [&](const kv_entry& each) { return each.key == parts_.keys.lock; });
  saw_lock_key(lock == e.listing.end() ? 0 : lock->create_index, e.id);
  auto seen = parts_.snapshot_of(std::move(e.listing), e.index);
  if (seen) parts_.read_back.listed(ctx_, parts_.news, *seen, e.id, parts_.members);
  sees.take_listing(std::move(seen), e.id, asked_at);
}

void pool::on(event::key_watched& e) {
  cluster_observer sees = observe();
  if (parts_.read.is(e.id)) {
    parts_.read.done();
    if (e.error.code) return parts_.read.failed(ctx_, std::move(e.error), parts_.read.sent_at());
    parts_.read.works();
    const bool tells = parts_.write.is_told_by(e.id) && parts_.write.current().by_record;
    const std::uint64_t index = e.pair ? e.pair->modify_index : 0;
    parts_.read_back.saw_record(ctx_, parts_.news, index, e.id);
    saw_lock_key(e.pair ? e.pair->create_index : 0, e.id);
    sees.saw_record(std::move(e.pair));
    if (tells) sees.resolve_by_record(index);
    return;
  }
  const std::optional<watch> asked = parts_.watches.take(e.id);
  if (!asked) return;
  if (e.error.code) return sees.on_watch_failed(*asked, std::move(e.error));
  sees.watches_work();
  parts_.watches.answered(ctx_, parts_.news, *asked, e.pair ? e.pair->modify_index : 0);
  if (asked->key == parts_.keys.lock) saw_lock_key(e.pair ? e.pair->create_index : 0, e.id);
  if (asked->key == parts_.keys.lock)
    sees.saw_record(std::move(e.pair));
  else if (asked->key.starts_with(parts_.keys.numbers))
    sees.saw_number(*asked, std::move(e.pair));
  else
    sees.saw_entry(*asked, std::move(e.pair), e.wait == duration() ? asked->wait : e.wait);
}

void pool::saw_lock_key(std::uint64_t created, request_id asked) {
  if (parts_.turns.saw(ctx_, parts_.news, created, asked, parts_.options))
    parts_.waiters.fail_all(ctx_, parts_.turns.why(parts_.options));
}

void pool::on(event::node_seen& e) {
  if (!parts_.read.is(e.id)) return;
  parts_.read.done();
  parts_.others.saw_node(ctx_, writer_.node_asked(), e, parts_.options);
}

void pool::on(event::txn_done& e) {
  if (own_grants_.answered(ctx_, parts_, e)) return;
  std::optional<transaction> txn = parts_.write.done(e.id);
  if (!txn) return;
  cluster_observer sees = observe();
  const time_point sent_at = txn->sent_at;
  switch (e.outcome) {
    case event::outcome::applied:
      parts_.read.works();
      parts_.write.works();
      parts_.watches.retry_now();
      parts_.write.applied();
      return write_outcome(ctx_, parts_, sees, taking_, writer_).applied(*std::move(txn), std::move(e.results));
    case event::outcome::refused:
      parts_.read.works();
      return write_outcome(ctx_, parts_, sees, taking_, writer_).refused(*std::move(txn), e.refusals);
    case event::outcome::not_sent:
      if (txn->returned.empty()) {
        sees.end_moves(*txn, false);
      } else {  // the outcome of the write before it is still open
        parts_.view.mark_stale();
        parts_.write.doubt(ctx_, *txn);
      }
      sees.refresh();
      if (is_final(e.error.code)) parts_.waiters.fail_all(ctx_, e.error);
      break;
    case event::outcome::unknown:
      if (txn->owes) parts_.duty.now_owes(true);
      parts_.read_back.forget();
      txn->why = e.error;
      parts_.write.doubt(ctx_, *std::move(txn));
      parts_.view.mark_stale();
      break;
  }
  parts_.write.failed(ctx_, std::move(e.error), sent_at);
}

}  // namespace holdfast::protocol

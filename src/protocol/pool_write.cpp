// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "protocol/pool.hpp"

// The writes: one transaction at a time, which does everything that is due and fits. Acceptances are sent separately.

namespace holdfast::protocol {

namespace {

constexpr unsigned once_conflicts_max = 3;
/// At most this many sessions are created at a time. The others are created as these are answered. A request for
/// several slots has all of its sessions created at once, because it waits for the last of them.
constexpr std::size_t sessions_at_once = 16;
/// A process that has unlocked a mutex without a grant, and has queued for it again in the same write, writes nothing
/// for a random time between once and twice this value.
constexpr duration yield_pause = std::chrono::milliseconds(10);

}  // namespace

void pool::write() {
  if (write_.is_sent()) return;
  if (write_.is_in_doubt()) return write_.current().by_record ? read_record() : read_prefix();
  const bool stands = any_waits(members_) || any_holds(members_);
  const std::vector<const contender*> to_take_back = overdue();
  const bool takes_back = !to_take_back.empty();
  if (waiters_.empty() && !stands && !duty_.owes() && !takes_back) return;
  if (all_in_use()) {  // no waiter needs the cluster, so earlier failures do not count
    read_.failures.over();
    write_.failures.over();
    return members_.forget_failures();
  }
  if (!due_or_wake(read_.failures.retry_at()) || !write_.is_due(ctx_)) return;
  const facts f = facts_now();
  const std::vector<member_id>& spares = slots_.spares();
  if (takes_back && (!view_.current() || open_grants_.is_unseen(to_take_back, view_.listed_at()))) return read_prefix();
  if (must_read_for_the_gone()) return read_prefix();
  switch (view_.state()) {
    case view::state::none:
      if (!waiters_.empty()) read_prefix();
      break;
    case view::state::stale:
      // A process that only wants to join can join and read in one request.
      if (stands || waiters_.empty() || waiters_.front().once)
        read_prefix();
      else
        write_from_view();
      break;
    case view::state::partial:
      // A partial view is enough to wait, to join or leave the queue, and to hand a slot on to the contender that is
      // known to be next. It is not enough in the cases of `must_read_before_writing`. One of them is a slot that stays
      // free for a Go contender, whose time limit runs only with a current view.
      if (must_read_before_writing())
        read_prefix();
      else if (view_.outrun() &&
               std::any_of(spares.begin(), spares.end(), [&](member_id id) { return !f.lacks_number(members_[id]); }))
        read_record();
      else
        write_from_view();
      break;
    case view::state::current:
      write_from_view();
      break;
  }
  // A request could have been sent, and none was. So nobody needs the requests that have failed, and their outages are
  // over.
  const bool creates = members_.failures().on() || members_.creating() != 0;
  if (write_.is_sent() || read_.under_way() || creates) return;
  read_.failures.over();
  write_.failures.over();
}

/// Whether a partial view allows no write, so that everything must be read first.
bool pool::must_read_before_writing() {
  const lock_record& record = view_.now().record;
  const bool is_any_free = !record.closed && record.holders.size() < limit() && any_waits(members_);
  return duty_.owes() || (situation_.foreign && is_any_free) || (!slots_.spares().empty() && !situation_.contested) ||
         (!waiters_.empty() && waiters_.front().once);
}

/// Whether everything must be read because the maker of a contender is gone. A view that is not current may lack that
/// contender.
bool pool::must_read_for_the_gone() {
  if (gone_.empty() || view_.current() || !waits_for_others()) return false;
  return gone_.need_listing(ctx_, view_.now(), view_.as_of());
}

void pool::write_from_view() {
  if (!fail_too_wide()) return read_prefix();
  if (situation_.limit_disagrees && !waiters_.empty()) {
    if (view_.as_of() <= waiters_.front().asked) return read_prefix();
    failure why = failed(error::limit_conflict, "the record in use has another limit than this semaphore");
    why.details.limit_conflict = {view_.now().record.limit, limit()};
    fail_waiters(why);
  }
  const bool awaits_node = read_node();
  moves unclaimed;  // the waiters here come before sessions that only rejoined early
  for (const auto& [id, m] : members_)
    if (m.rejoined_early && m.is_ready() && m.waits()) unclaimed.leave.push_back(&m);
  const demand need = wanted(
      [&] {
        const facts f = facts_now();
        const std::uint32_t free = view_.current() ? plan(view_.now(), rules(unclaimed)).free : 0;
        const std::vector<member_id>& spares = slots_.spares();
        const auto usable =
            std::count_if(spares.begin(), spares.end(), [&](member_id id) { return !f.must_go_back(members_[id]); });
        return static_cast<std::uint32_t>(usable) + free;
      },
      awaits_node);
  if (need.needs_read) read_prefix();  // releases do not wait for this read

  moves what = carry_out(decide(ctx_, facts_now(), need, returns_soon_));
  if (!view_.current()) {
    choose_numbers(what);
    if (what.gives()) return hand_on(what);
    if (!what.empty()) send(what, {}, false);
    return;
  }
  const bool is_anybody_waiting = need.slots != 0 || any_waits(members_);
  const bool is_nothing_due = !duty_.owes() && overdue().empty() && gone().empty();
  if (what.empty() && !is_anybody_waiting && is_nothing_due) {  // no plan would be written
    duty_.moved_on();
    return numbers_.nobody_needs_one();
  }
  grant_plan next = plan(view_.now(), rules(what));
  if (is_anybody_waiting)
    while (claims_.wait(ctx_, next, options_.claim_timeout)) next = plan(view_.now(), rules(what));
  const bool grants = !what.gives() || duty_.grants_with_release();
  if (next.granted.empty() && !next.cut && grants) duty_.now_owes(false);  // there is no contender to grant
  // A session that rejoins early would get a slot at once, although nobody here wants it.
  if (next.free != 0 && what.rejoins_early) {
    what.rejoins_early = members_[what.requeue.front()->id].rejoined_early = false;
    what.give_back.swap(what.requeue);
  }

  // The newcomers take the slots on which no waiting contender has a claim, in the same write.
  const facts f = facts_now();
  if (what.gives() && f.must_yield()) next.free = 0;
  // If the moves do not fit into one write beside the record, the newcomers only queue at first.
  if (!what.gives() && operations(f, what) > moves_beside_record(f)) next.free = 0;
  // If other processes write the record faster, newcomers queue without writing it. The process that writes it next
  // grants them.
  if (write_.is_outrun() && options_.form == record_form::map && limit() > 1) next.free = 0;
  bool takes = false;
  for (const moves::list* newcomers : {&what.requeue, &what.join})
    for (const member* m : *newcomers) {
      if (next.free == 0) break;
      next.record.add(m->session);
      --next.free;
      takes = true;
      if (options_.numbered && newcomers == &what.join && has_room_for_number(f, what, next)) what.number.push_back(m);
    }
  next.reads_entries = what.gives() && next.free != 0 && is_turn_to_read();
  choose_numbers(what);
  bool writes_record =
      what.gives() || takes || !next.taken_back.empty() || duty_.may_grant(ctx_, next, members_, options_.grant_backup);
  if (next.gone.empty())
    gone_.nothing_due();
  else if (!writes_record)
    writes_record = gone_.is_turn(ctx_);
  if (writes_record || !what.empty()) send(what, next, writes_record);
}

/// Whether a release that leaves a slot free also reads the entries. If no slot was free before, it reads them in any
/// case (`compose`). If other processes change the record faster than a contender can write it, the contender waits in
/// the queue beside the free slot. Processes with short holds notice the contender only by such a read. In a large
/// crowd the read is large, so fewer releases do it. The choice is random and needs no state, because a program may
/// acquire and release only once.
bool pool::is_turn_to_read() {
  constexpr std::size_t releases_min = 16, contenders_of_release = 8;
  const auto releases = static_cast<duration::rep>(std::max(releases_min, view_.now().crowd() / contenders_of_release));
  return ctx_.random().between(duration(0), duration(releases - 1)) == duration(0);
}

/// Hands our slots on to the contenders that are known to be next. There must be enough such contenders, because a
/// process that leaves a slot free must know the whole queue.
void pool::hand_on(const moves& what) {
  if (view_.outrun()) return read_record();
  plan_rules known = rules(what);
  known.complete = false;
  const grant_plan next = plan(view_.now(), known);
  if (next.free != 0 || next.granted.empty() || !next.left_free.empty()) return read_prefix();
  send(what, next, true);
}

/// The demand of the local queue beyond the slots in use: whole requests, in order, as long as they fit. A `once`
/// waiter gets its slots if they can be had at once. It is denied at once if the slots in use leave no room for it.
/// Otherwise it is denied after `once_conflicts_max` conflicts, or as soon as the view is newer than the waiter and no
/// answer about a node is awaited.
demand pool::wanted(const std::function<std::uint32_t()>& count_takeable, bool awaits_node) {
  demand need;
  std::optional<std::uint32_t> takeable;
  if (closing_.has_begun()) return need;
  const std::uint32_t room = limit() - std::min(limit(), slots_.in_use());
  std::vector<ticket> denied;
  waiters_.for_each([&](const waiter& w) {
    if (w.once && w.count > room) {
      denied.push_back(w.ticket);
      return true;
    }
    if (w.once) {
      if (!takeable) takeable = count_takeable();
      if (w.count <= *takeable && w.count <= room - need.slots && w.conflicts < once_conflicts_max) {
        *takeable -= w.count;
      } else if ((view_.as_of() > w.asked && !awaits_node) || w.conflicts >= once_conflicts_max) {
        denied.push_back(w.ticket);
        return true;
      } else {
        need.needs_read = !awaits_node;
        return false;
      }
    } else if (w.count > room - need.slots) {
      return false;
    }
    need.slots += w.count;
    need.requests.push_back(w.count);
    return true;
  });
  for (const ticket t : denied) {
    waiters_.remove(t);
    act(action::deny{t});
  }
  return need;
}

/// Carries out everything of a decision except the write. Returns the moves for the write.
moves pool::carry_out(decision d) {
  for (const member_id id : slots_.spares()) members_[id].rejoined_early = false;
  for (const member_id id : d.kept) slots_.free_member(ctx_, members_[id].gives_back);
  if (d.what.rejoins_early) members_[d.what.requeue.front()->id].rejoined_early = true;
  returns_soon_ = d.returns_soon;
  if (d.has_sessions) members_.forget_failures();
  if (d.sessions != 0) create_sessions(d.sessions);
  return std::move(d.what);
}

/// Chooses a number for each member that needs one, from the numbers that nobody is known to have and whose last
/// holders are not spared. A member that gets no number waits.
void pool::choose_numbers(moves& what) {
  if (what.number.empty()) return numbers_.nobody_needs_one();
  if (numbers_.may_choose(ctx_)) {
    std::vector<bool> taken(limit(), false);
    for (const slot_number& each : view_.now().numbers)
      if (!each.session.empty() && each.number < limit()) taken[each.number] = true;
    for (const std::uint32_t number : others_.spared_numbers(ctx_, limit(), options_)) taken[number] = true;
    what.numbers = numbers_.choose(ctx_, std::move(taken), what.number.size());
    if (what.numbers.empty()) {
      if (!numbers_.leaves_out_a_free_one() && view_.as_of() <= numbers_.sought()) {
        read_prefix();
      } else {
        if (!waiters_.empty() && waiters_.front().once) waiters_.front().conflicts = once_conflicts_max;
        if (!numbers_.leaves_out_a_free_one()) numbers_.found_none(ctx_);
      }
    }
  }
  what.number.resize(what.numbers.size());
}

/// Reads a node if somebody here wants a slot, the holder of a slot is spared, and the node may show that it is free.
/// Returns true if such an answer is awaited, also if the request cannot be sent yet.
bool pool::read_node() {
  if (!view_.current() || (waiters_.empty() && !any_waits(members_))) return false;
  std::optional<std::string> node = others_.node_to_read(ctx_, view_.now(), members_, options_);
  if (!node) return false;
  if (!read_.under_way()) {
    node_asked_ = *node;
    read_.node(ctx_, *std::move(node));
  }
  return true;
}

void pool::create_sessions(std::size_t count) {
  if (!due_or_wake(members_.failures().retry_at())) return;
  std::size_t creating = members_.creating();
  const std::size_t wide = waiters_.empty() ? 0 : waiters_.front().count;
  const std::size_t most = std::max(sessions_at_once, wide);
  for (; count != 0 && creating < most && members_.size() < limit(); --count, ++creating)
    members_.create(ctx_).idle_since = now();
}

void pool::send(const moves& what, const grant_plan& next, bool writes_record) {
  const facts f = facts_now();
  const bool yields = what.gives() && f.must_yield();
  transaction txn = compose(f, what, next, writes_record, ctx_.new_request());
  if (yields && !what.requeue.empty()) write_.wait_until(now() + ctx_.random().between(yield_pause, 2 * yield_pause));
  for (const member_id id : txn.movers) {
    members_[id].phase.go_to(phase::moving);
    slots_.erase_spare(id);
  }
  for (const auto& [session, text] : txn.inserted) members_.find(session)->text = text;
  gone_.tried(txn.removed);
  write_.send(ctx_, std::move(txn));
}

}  // namespace holdfast::protocol

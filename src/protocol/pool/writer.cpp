// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/writer.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/pool/compose.hpp"
#include "protocol/pool/decide.hpp"

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

/// One run of `write`.
class writer::step {
public:
  step(writer& its, context& ctx, pool_parts& parts, taking& takes)
      : its_(its), ctx_(ctx), parts_(parts), taking_(takes) {}
  void write();

private:
  bool must_read_before_writing();
  void write_from_view();
  bool may_write() {
    return ctx_.due_or_wake(parts_.read_back.retry_at()) &&
           ctx_.ask([&](moment& at) { return parts_.write.is_due(at); });
  }
  bool any_overdue() {
    return !ctx_.ask([&](moment& at) { return taking_.overdue(at, parts_); }).empty();
  }
  bool any_gone() {
    return !ctx_.ask([&](moment& at) { return taking_.gone(at, parts_); }).empty();
  }
  plan_rules rules(const moves& what);
  bool takes_turn_to_read();
  void hand_on(const moves& what);
  bool fail_conflicting_limit();
  void write_without_plan(moves& what);
  grant_plan plan_beside(moves& what, bool is_anybody_waiting);
  bool take_free_slots(moves& what, grant_plan& next);
  demand answer_tries(bool awaits_node);
  std::uint32_t count_takeable();
  moves carry_out(decision d);
  void choose_numbers(moves& what);
  void create_sessions(std::size_t count);
  void read_prefix() { parts_.read_everything(ctx_); }
  void read_record() { parts_.read.key(ctx_, parts_.keys.lock); }
  bool read_node();
  void send(const moves& what, const grant_plan& next, bool writes_record);
  bool fail_too_wide();
  facts facts_now() const { return {parts_, ctx_.now()}; }

  writer& its_;
  context& ctx_;
  pool_parts& parts_;
  taking& taking_;
};

void writer::write(context& ctx, pool_parts& parts, taking& takes) { step(*this, ctx, parts, takes).write(); }

void writer::step::write() {
  if (parts_.write.is_sent()) return;
  if (parts_.write.is_in_doubt()) return parts_.write.current().by_record ? read_record() : read_prefix();
  const bool stands = any_waits(parts_.members) || any_holds(parts_.members);
  const bool takes_back = any_overdue();
  if (parts_.waiters.empty() && !stands && !parts_.duty.owes() && !takes_back) return;
  if (parts_.all_in_use()) {  // no waiter needs the cluster, so earlier failures do not count
    parts_.read.works();
    parts_.write.works();
    return parts_.members.forget_failures();
  }
  if (!ctx_.due_or_wake(parts_.read.failures().retry_at()) || !may_write()) return;
  const facts f = facts_now();
  const std::vector<member_id>& spares = parts_.slots.spares();
  if (ctx_.ask([&](moment& at) { return taking_.must_list(at, parts_); })) return read_prefix();
  if (taking_.takes_turn_to_list(ctx_, parts_)) return read_prefix();
  switch (parts_.view.state()) {
    case view::state::none:
      if (!parts_.waiters.empty()) read_prefix();
      break;
    case view::state::stale:
      // A process that only wants to join can join and read in one request.
      if (stands || parts_.waiters.empty() || parts_.waiters.front().terms.once)
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
      else if (parts_.view.outrun() && std::any_of(spares.begin(), spares.end(),
                                                   [&](member_id id) { return !f.lacks_number(parts_.members[id]); }))
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
  const bool creates = parts_.members.failures().on() || parts_.members.creating() != 0;
  if (parts_.write.is_sent() || parts_.read.under_way() || creates) return;
  parts_.read.works();
  parts_.write.works();
}

/// Whether a partial view allows no write, so that everything must be read first.
bool writer::step::must_read_before_writing() {
  const lock_record& record = parts_.view.now().record;
  const bool is_any_free = !record.closed && record.holders.size() < parts_.limit() && any_waits(parts_.members);
  return parts_.duty.owes() || (parts_.situation.foreign && is_any_free) ||
         (!parts_.slots.spares().empty() && !parts_.situation.contested) ||
         (!parts_.waiters.empty() && parts_.waiters.front().terms.once);
}

void writer::step::write_from_view() {
  if (!fail_too_wide() || !fail_conflicting_limit()) return read_prefix();
  const bool awaits_node = read_node();
  const demand need = answer_tries(awaits_node);
  if (need.needs_read) read_prefix();  // releases do not wait for this read

  moves what = carry_out(ctx_.ask([&](moment& at) { return decide(at, facts_now(), need, its_.returns_soon_); }));
  if (!parts_.view.current()) return write_without_plan(what);
  const bool is_anybody_waiting = need.slots != 0 || any_waits(parts_.members);
  const bool is_nothing_due = !parts_.duty.owes() && !any_overdue() && !any_gone();
  if (what.empty() && !is_anybody_waiting && is_nothing_due) {  // no plan would be written
    parts_.duty.moved_on();
    return its_.numbers_.nobody_needs_one();
  }
  grant_plan next = plan_beside(what, is_anybody_waiting);
  const bool takes = take_free_slots(what, next);
  next.reads_entries = what.gives() && next.free != 0 && takes_turn_to_read();
  choose_numbers(what);
  const bool is_due = what.gives() || takes || !next.taken_back.empty() ||
                      parts_.duty.takes_turn(ctx_, next, parts_.members, parts_.options.grant_backup);
  const bool writes_record = taking_.takes_turn(ctx_, next, is_due);
  if (writes_record || !what.empty()) send(what, next, writes_record);
}

/// If the record in use has another limit than this semaphore, fails the local waiters. Returns false if only a newer
/// view can show whether that is so.
bool writer::step::fail_conflicting_limit() {
  if (!parts_.situation.limit_disagrees || parts_.waiters.empty()) return true;
  if (parts_.view.as_of() <= parts_.waiters.front().asked) return false;
  failure why = parts_.failed(error::limit_conflict, "the record in use has another limit than this semaphore");
  why.details.limit_conflict = {parts_.view.now().record.limit, parts_.limit()};
  parts_.waiters.fail_all(ctx_, why);
  return true;
}

/// Writes moves of our own contenders that need no view of the whole queue.
void writer::step::write_without_plan(moves& what) {
  choose_numbers(what);
  if (what.gives()) return hand_on(what);
  if (!what.empty()) send(what, {}, false);
}

/// Plans the grants to write beside our own moves. Early rejoins for which a slot is free become releases, because
/// nobody here wants the slot.
grant_plan writer::step::plan_beside(moves& what, bool is_anybody_waiting) {
  grant_plan next = plan(parts_.view.now(), rules(what));
  if (is_anybody_waiting)
    while (parts_.claims.pass_over_the_late(ctx_, next, parts_.options)) next = plan(parts_.view.now(), rules(what));
  const bool grants = !what.gives() || parts_.duty.grants_with_release();
  if (next.granted.empty() && !next.cut && grants) parts_.duty.now_owes(false);  // there is no contender to grant
  if (next.free != 0 && what.rejoins_early) {
    what.rejoins_early = parts_.members[what.requeue.front()->id].rejoined_early = false;
    what.give_back.swap(what.requeue);
  }
  return next;
}

plan_rules writer::step::rules(const moves& what) {
  taking_.free_slots_of_the_gone(ctx_, parts_.others);
  return ctx_.ask([&](moment& at) { return taking_.rules(at, parts_, what); });
}

/// Lets our newcomers take the slots on which no waiting contender has a claim, in the same write. Returns true if they
/// take any. They only queue if the moves do not fit into one write beside the record, or if other processes write the
/// record faster: then the process that writes it next grants them.
bool writer::step::take_free_slots(moves& what, grant_plan& next) {
  const facts f = facts_now();
  if (what.gives() && f.must_yield()) next.free = 0;
  if (!what.gives() && operations(f, what) > moves_beside_record(f)) next.free = 0;
  if (parts_.write.is_outrun() && parts_.options.form == record_form::map && parts_.limit() > 1) next.free = 0;
  bool takes = false;
  for (const moves::list* newcomers : {&what.requeue, &what.join})
    for (const member* m : *newcomers) {
      if (next.free == 0) break;
      next.record.add(m->session);
      --next.free;
      takes = true;
      if (parts_.options.numbered && newcomers == &what.join && has_room_for_number(f, what, next))
        what.number.push_back(m);
    }
  return takes;
}

/// Returns true if a release that leaves a slot free also reads the entries. If no slot was free before, it reads them
/// in any case (`compose`). If other processes change the record faster than a contender can write it, the contender
/// waits in the queue beside the free slot. Processes with short holds notice the contender only by such a read. In a
/// large crowd the read is large, so fewer releases do it. The choice is random and needs no state, because a program
/// may acquire and release only once.
bool writer::step::takes_turn_to_read() {
  constexpr std::size_t releases_min = 16, contenders_of_release = 8;
  const auto releases =
      static_cast<duration::rep>(std::max(releases_min, parts_.view.now().crowd() / contenders_of_release));
  return ctx_.random().between(duration(0), duration(releases - 1)) == duration(0);
}

/// Hands our slots on to the contenders that are known to be next. There must be enough such contenders, because a
/// process that leaves a slot free must know the whole queue.
void writer::step::hand_on(const moves& what) {
  if (parts_.view.outrun()) return read_record();
  plan_rules known = rules(what);
  known.complete = false;
  const grant_plan next = plan(parts_.view.now(), known);
  if (next.free != 0 || next.granted.empty() || !next.left_free.empty()) return read_prefix();
  send(what, next, true);
}

/// Denies the `once` waiters that cannot have their slots at once, and returns the demand of the others beyond the
/// slots in use: whole requests, in order, as long as they fit. A `once` waiter is denied at once if the slots in use
/// leave no room for it. Otherwise it is denied after `once_conflicts_max` conflicts, or as soon as the view is newer
/// than the waiter and no answer about a node is awaited. While the application is silent, all `once` waiters are denied,
/// and there is no demand.
demand writer::step::answer_tries(bool awaits_node) {
  demand need;
  std::optional<std::uint32_t> takeable;
  if (parts_.closing.has_begun()) return need;
  if (parts_.application.is_silent()) {
    parts_.waiters.deny_tries(ctx_);
    return need;
  }
  const std::uint32_t room = parts_.limit() - std::min(parts_.limit(), parts_.slots.in_use());
  std::vector<ticket> denied;
  parts_.waiters.for_each([&](const waiter& w) {
    if (w.terms.once && w.terms.count > room) {
      denied.push_back(w.ticket);
      return true;
    }
    if (w.terms.once) {
      if (!takeable) takeable = count_takeable();
      if (w.terms.count <= *takeable && w.terms.count <= room - need.slots && w.conflicts < once_conflicts_max) {
        *takeable -= w.terms.count;
      } else if ((parts_.view.as_of() > w.asked && !awaits_node) || w.conflicts >= once_conflicts_max) {
        denied.push_back(w.ticket);
        return true;
      } else {
        need.needs_read = !awaits_node;
        return false;
      }
    } else if (w.terms.count > room - need.slots) {
      return false;
    }
    need.slots += w.terms.count;
    need.requests.push_back(w.terms.count);
    return true;
  });
  parts_.waiters.deny_all(ctx_, denied);
  return need;
}

/// How many slots this process could use now: its spare ones, and those that the view shows as free.
std::uint32_t writer::step::count_takeable() {
  moves unclaimed;  // the waiters here come before sessions that only rejoined early
  for (const auto& [id, m] : parts_.members)
    if (m.rejoined_early && m.is_ready() && m.waits()) unclaimed.leave.push_back(&m);
  const facts f = facts_now();
  const std::uint32_t free = parts_.view.current() ? plan(parts_.view.now(), rules(unclaimed)).free : 0;
  const std::vector<member_id>& spares = parts_.slots.spares();
  const auto usable =
      std::count_if(spares.begin(), spares.end(), [&](member_id id) { return !f.must_go_back(parts_.members[id]); });
  return static_cast<std::uint32_t>(usable) + free;
}

/// Carries out everything of a decision except the write. Returns the moves for the write.
moves writer::step::carry_out(decision d) {
  for (const member_id id : parts_.slots.spares()) parts_.members[id].rejoined_early = false;
  for (const member_id id : d.kept) parts_.slots.free_member(ctx_, parts_.members[id].gives_back);
  if (d.what.rejoins_early) parts_.members[d.what.requeue.front()->id].rejoined_early = true;
  its_.returns_soon_ = d.returns_soon;
  if (d.has_sessions) parts_.members.forget_failures();
  if (d.sessions != 0) create_sessions(d.sessions);
  return std::move(d.what);
}

/// Chooses a number for each member that needs one, from the numbers that nobody is known to have and whose last
/// holders are not spared. A member that gets no number waits.
void writer::step::choose_numbers(moves& what) {
  if (what.number.empty()) return its_.numbers_.nobody_needs_one();
  if (ctx_.due_or_wake(its_.numbers_.due_at())) {
    std::vector<bool> taken(parts_.limit(), false);
    for (const slot_number& each : parts_.view.now().numbers)
      if (!each.session.empty() && each.number < parts_.limit()) taken[each.number] = true;
    const auto spared =
        ctx_.ask([&](moment& at) { return parts_.others.spared_numbers(at, parts_.limit(), parts_.options); });
    for (const std::uint32_t number : spared) taken[number] = true;
    what.numbers = its_.numbers_.choose(ctx_, std::move(taken), what.number.size());
    if (what.numbers.empty()) {
      if (!its_.numbers_.leaves_out_a_free_one() && parts_.view.as_of() <= its_.numbers_.sought()) {
        read_prefix();
      } else {
        if (!parts_.waiters.empty() && parts_.waiters.front().terms.once)
          parts_.waiters.front().conflicts = once_conflicts_max;
        if (!its_.numbers_.leaves_out_a_free_one()) its_.numbers_.found_none(ctx_);
      }
    }
  }
  what.number.resize(what.numbers.size());
}

/// Reads a node if somebody here wants a slot, the holder of a slot is spared, and the node may show that it is free.
/// Returns true if such an answer is awaited, also if the request cannot be sent yet.
bool writer::step::read_node() {
  if (!parts_.view.current() || (parts_.waiters.empty() && !any_waits(parts_.members))) return false;
  std::optional<std::string> node = ctx_.ask(
      [&](moment& at) { return parts_.others.node_to_read(at, parts_.view.now(), parts_.members, parts_.options); });
  if (!node) return false;
  if (!parts_.read.under_way()) {
    its_.node_asked_ = *node;
    parts_.read.node(ctx_, *std::move(node));
  }
  return true;
}

void writer::step::create_sessions(std::size_t count) {
  if (!ctx_.due_or_wake(parts_.members.failures().retry_at())) return;
  std::size_t creating = parts_.members.creating();
  const std::size_t wide = parts_.waiters.empty() ? 0 : parts_.waiters.front().terms.count;
  const std::size_t most = std::max(sessions_at_once, wide);
  for (; count != 0 && creating < most && parts_.members.size() < parts_.limit(); --count, ++creating)
    parts_.members.create(ctx_).idle_since = ctx_.now();
}

void writer::step::send(const moves& what, const grant_plan& next, bool writes_record) {
  const facts f = facts_now();
  const bool yields = what.gives() && f.must_yield();
  transaction txn = compose(f, what, next, writes_record, ctx_.new_request());
  if (yields && !what.requeue.empty())
    parts_.write.wait_until(ctx_.now() + ctx_.random().between(yield_pause, 2 * yield_pause));
  for (const member_id id : txn.movers) {
    parts_.members[id].phase.go_to(phase::moving);
    parts_.slots.erase_spare(id);
  }
  for (const auto& [session, text] : txn.inserted) parts_.members.find(session)->text = text;
  taking_.tried(txn);
  parts_.read_back.sent(txn);
  parts_.write.send(ctx_, std::move(txn));
}

/// Fails the first waiters that want more slots than the limit. Such a waiter must not block the waiters behind it,
/// even if the limit was lowered after it came. Returns false if the view is older than the waiter, so that the limit
/// must be read first.
bool writer::step::fail_too_wide() {
  while (!parts_.waiters.empty() && parts_.waiters.front().terms.count > parts_.limit()) {
    if (parts_.view.as_of() <= parts_.waiters.front().asked) return false;
    parts_.waiters.fail_first(ctx_, parts_.too_many(parts_.waiters.front().terms.count));
  }
  return true;
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/decide.hpp"

#include <utility>

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace {

/// The number of operations that one write has for moves. The others are for the record and for a listing.
constexpr std::size_t operations_for_moves = operations_max - 4;
/// One write takes at most this many sessions that must end out of the record.
constexpr std::size_t ending_at_once = 8;

std::size_t bytes_of_move(const facts& f) {
  const pool_options& o = f.parts.options;
  return bytes_of_operation(o.lock_key.size() + 40, o.description.size() + o.node.size() + 64);
}

std::size_t operations_that_fit(const facts& f, const moves& what) {
  return what.gives() ? std::min(moves_beside_record(f), operations_for_moves) : operations_for_moves;
}

/// Whether a slot that nobody uses stays here.
bool keeps(moment& at, const facts& f, const member& m, const demand& need) {
  if (f.parts.closing.has_begun() || f.must_go_back(m) || f.parts.application.is_silent()) return false;
  if (!f.parts.situation.contested && f.parts.waiters.size() != 0) return true;
  if (need.slots == 0)
    return !f.parts.situation.contested &&
           !at.has_come(std::min(m.idle_since + f.parts.options.slot_idle_timeout, f.yields_at()));
  // Local waiters need the slot and could not be served yet, for example because the first of them wants several slots.
  // Others wait elsewhere. The slot stays as long as there are enough free slots for all contenders that stand in the
  // queue before our first entry.
  const snapshot& now = f.now();
  std::size_t free =
      f.parts.situation.limit - std::min<std::size_t>(f.parts.situation.limit, now.record.holders.size());
  for (const contender& entry : now.contenders) {
    if (!is_waiting(now, entry) || f.parts.claims.passed_over(entry.session)) continue;
    if (f.parts.members.is_ours(entry.session)) return true;
    if (free-- == 0) return false;
  }
  return true;
}

/// Whether at least `count` entries of ours wait, and no other process's contender stands between the first `count` of
/// them. Contenders that are passed over do not count.
bool stand_together(const facts& f, const moves::list& waiting, std::size_t count) {
  const snapshot& now = f.now();
  if (waiting.size() < count) return false;
  const contender* const last = now.find(waiting[count - 1]->session);
  return std::none_of(now.find(waiting.front()->session), last, [&](const contender& entry) {
    return is_waiting(now, entry) && !f.parts.members.is_ours(entry.session) &&
           !f.parts.claims.passed_over(entry.session);
  });
}

/// All our waiting entries leave the queue. The sessions that were to join again at its back do not join.
void leave_all(moves& what, moves::list& waiting) {
  for (const member* m : what.requeue) (m->holds() ? what.give_back : what.leave).push_back(m);
  what.leave.insert(what.leave.end(), waiting.begin(), waiting.end());
  what.requeue.clear();
  waiting.clear();
}

/// The number of operations for a session that leaves its slot or the queue. Its number and its acceptance go, too.
std::size_t operations_of(const facts& f, const member& m, bool joins_again) {
  return 1 + (joins_again ? 1 : 0) + (f.number_of(m) != nullptr ? 1 : 0) + (m.acceptance.was_sent() ? 1 : 0);
}

/// Cuts the moves down to those that fit into one write. The next write makes the rest.
void cut(const facts& f, moves& what) {
  const std::size_t most = operations_that_fit(f, what);
  for (std::size_t used = operations(f, what); used > most;) {
    moves::list& last = !what.number.empty()    ? what.number
                        : !what.leave.empty()   ? what.leave
                        : !what.requeue.empty() ? what.requeue
                                                : what.give_back;
    used -= &last == &what.number ? 1 : operations_of(f, *last.back(), &last == &what.requeue);
    last.pop_back();
  }
}

/// The number of slots that the first requests want: as many whole requests as `most` slots suffice for.
std::size_t whole_requests(const demand& need, std::size_t most) {
  std::size_t whole = 0;
  for (const std::uint32_t count : need.requests) {
    if (whole + count > most) break;
    whole += count;
  }
  return whole;
}

/// Cuts the newcomers down to those that fit into the transaction and that, with the existing `supply`, fill whole
/// requests.
void join_whole_requests(const facts& f, moves& what, const demand& need, std::size_t supply) {
  const std::size_t all = operations_that_fit(f, what);
  const std::size_t others = operations(f, what) - what.join.size();
  const std::size_t room = all - std::min(all, others);
  const std::size_t most = supply + std::min(what.join.size(), room);
  const std::size_t whole = whole_requests(need, most);
  what.join.resize(whole > supply ? whole - supply : 0);
}

/// A decision in the making. `decide` calls its parts in their order.
class draft {
public:
  draft(moment& at, const facts& f, const demand& need, bool returns_soon)
      : at_(at),
        f_(f),
        need_(need),
        wide_(need.requests.empty() || need.requests.front() == 1 ? 0 : need.requests.front()) {
    result_.returns_soon = returns_soon;
  }

  void sort_spares();
  void find_members();
  void requeue_what_is_wanted();
  void keep_wide_request_together();
  void dismiss_surplus();
  void create_missing();
  void leave_to_join_together();
  void join();
  decision take() { return std::move(result_); }

private:
  bool is_wanted_soon() const;
  bool stays(const member& m);

  moment& at_;
  const facts& f_;
  const demand& need_;
  const std::size_t wide_;  ///< how many slots the first request wants, if it is more than one
  decision result_{};
  moves& what_ = result_.what;
  moves::list ending_{};   ///< spares whose sessions may not queue again in this write
  moves::list waiting_{};  ///< in the order of the queue
  moves::list absent_{};
  std::size_t creating_ = 0;
  std::size_t missing_ = 0;  ///< sessions that the local waiters still need
  bool all_leave_ = false;
};

/// Decides which spare slots (we hold them, and nobody uses them) stay here, and which go back. A request is served
/// only when no acceptance of its slots is awaited, and their numbers are locked. So the spares that make up such a
/// request stay here until that is done, instead of going back to Consul in between.
void draft::sort_spares() {
  const std::vector<member_id>& spares = f_.parts.slots.spares();
  const auto usable = static_cast<std::size_t>(std::count_if(
      spares.begin(), spares.end(), [&](member_id id) { return !f_.must_go_back(f_.parts.members[id]); }));
  const bool awaits = f_.parts.options.numbered || std::any_of(spares.begin(), spares.end(), [&](member_id id) {
                        return f_.parts.members[id].acceptance.is_awaited();
                      });
  std::size_t awaited = awaits ? whole_requests(need_, usable) : 0;
  for (const member_id id : spares) {
    const member& m = f_.parts.members[id];
    if (m.rejoined_early && need_.slots == 0) result_.returns_soon = false;
    const bool is_awaited = awaited != 0 && !f_.must_go_back(m);
    awaited -= is_awaited;
    if (is_awaited || keeps(at_, f_, m, need_)) {
      result_.kept.push_back(id);
      if (f_.lacks_number(m)) what_.number.push_back(&m);
    } else {
      (m.lost || m.has_returned ? ending_ : what_.give_back).push_back(&m);
    }
  }
  missing_ = need_.slots - std::min<std::size_t>(need_.slots, result_.kept.size());
}

void draft::find_members() {
  for (const auto& [id, m] : f_.parts.members) {
    creating_ += !m.is_created();
    if (!m.is_ready()) continue;
    if (m.lost) {  // its slot was lost, and must not be granted to it again
      if (m.waits()) what_.leave.push_back(&m);
      continue;
    }
    if (m.waits()) waiting_.push_back(&m);
    if (m.standing == standing::absent) absent_.push_back(&m);
  }
  const snapshot& now = f_.now();
  std::sort(waiting_.begin(), waiting_.end(),
            [&](const member* a, const member* b) { return now.find(a->session) < now.find(b->session); });
}

/// Whether a single slot of ours goes to somebody who waits elsewhere, while the user who has just released it is
/// expected to come back for it, and no other entry of ours waits.
bool draft::is_wanted_soon() const {
  return result_.returns_soon && f_.parts.situation.contested && !f_.parts.closing.has_begun() && need_.slots == 0 &&
         what_.give_back.size() == 1 && waiting_.empty();
}

/// A session that releases its slot, while a waiter here still needs one, or is expected soon (`is_wanted_soon`), joins
/// the queue again behind the others. Entries that wait already count, and keep their places. The exception is a
/// request for several slots whose entries do not stand together: then all of its entries move.
void draft::requeue_what_is_wanted() {
  const bool are_of_use = wide_ == 0 || stand_together(f_, waiting_, wide_);
  const std::size_t waiting = are_of_use ? waiting_.size() : 0;
  while (what_.requeue.size() + waiting < missing_ && !what_.give_back.empty()) {
    what_.requeue.push_back(what_.give_back.back());
    what_.give_back.pop_back();
  }
  if (is_wanted_soon()) {
    what_.requeue.swap(what_.give_back);
    what_.rejoins_early = true;
  }
  what_.give_back.insert(what_.give_back.end(), ending_.begin(), ending_.end());
}

/// Moves the entries of a wide request to the back of the queue together. Entries that stand together are granted
/// together, so that two wide requests do not each hold half of their slots. If the entries do not fit into one write,
/// all of them leave the queue first, and join when all have left.
void draft::keep_wide_request_together() {
  if (wide_ == 0 || what_.requeue.empty() || stand_together(f_, waiting_, wide_)) return;
  while (what_.requeue.size() < missing_ && !waiting_.empty()) {
    what_.requeue.push_back(waiting_.back());
    waiting_.pop_back();
  }
  all_leave_ = operations(f_, what_) > operations_that_fit(f_, what_);
}

bool draft::stays(const member& m) {
  return m.rejoined_early && need_.slots == 0 && !f_.parts.closing.has_begun() &&
         !at_.has_come(m.waiting_since + f_.parts.options.rejoin_window);
}

/// If too many of our entries wait, the newest leave the queue. An entry that has queued before anybody here wanted a
/// slot stays for `rejoin_window`.
void draft::dismiss_surplus() {
  missing_ -= std::min(missing_, what_.requeue.size());
  while (waiting_.size() > missing_ && !stays(*waiting_.back())) {
    if (waiting_.back()->rejoined_early) result_.returns_soon = false;
    what_.leave.push_back(waiting_.back());
    waiting_.pop_back();
  }
  missing_ -= std::min(missing_, waiting_.size());
}

void draft::create_missing() {
  result_.has_sessions = missing_ <= absent_.size();
  if (missing_ > absent_.size() + creating_) result_.sessions = missing_ - absent_.size() - creating_;
  if (absent_.size() > missing_) absent_.resize(missing_);
}

/// Handles a wide request of which some entries have left the queue. As soon as there are sessions for the whole
/// request, the other entries leave, too. The next write then joins all of them together.
void draft::leave_to_join_together() {
  const std::size_t supply = result_.kept.size() + waiting_.size();
  const bool some_have_left = !waiting_.empty() && supply < wide_;
  all_leave_ = all_leave_ || (what_.requeue.empty() && some_have_left && supply + absent_.size() >= wide_);
  if (!all_leave_) return;
  leave_all(what_, waiting_);
  absent_.clear();
}

void draft::join() {
  cut(f_, what_);
  what_.join = std::move(absent_);
  join_whole_requests(f_, what_, need_, result_.kept.size() + what_.requeue.size() + waiting_.size());
}

}  // namespace

decision decide(moment& at, const facts& f, const demand& need, bool returns_soon) {
  draft d(at, f, need, returns_soon);
  d.sort_spares();
  d.find_members();
  d.requeue_what_is_wanted();
  d.keep_wide_request_together();
  d.dismiss_surplus();
  d.create_missing();
  d.leave_to_join_together();
  d.join();
  return d.take();
}

std::size_t operations(const facts& f, const moves& what) {
  std::size_t sum = what.join.size() + what.number.size();
  for (const moves::list* list : {&what.give_back, &what.requeue, &what.leave})
    for (const member* m : *list) sum += operations_of(f, *m, list == &what.requeue);
  return sum;
}

std::vector<std::uint32_t> numbers_left(const facts& f, const moves& what, const grant_plan& next) {
  std::vector<std::uint32_t> numbers;
  if (!f.parts.options.numbered) return numbers;
  const auto leaves = [&](const std::string& session) {
    const slot_number* const its = f.now().number_of(session);
    if (its && its->number < next.record.limit) numbers.push_back(its->number);
  };
  for (const moves::list* list : {&what.give_back, &what.requeue})
    for (const member* m : *list) leaves(m->session);
  for (const auto* const list : {&next.taken_back, &next.gone})
    for (const contender* each : *list) leaves(each->session);
  return numbers;
}

std::size_t moves_beside_record(const facts& f) {
  const pool_options& o = f.parts.options;
  const std::size_t room = room_beside(f.now().record, o.lock_key, o.request_bytes);
  const std::size_t grant = bytes_of_operation(o.lock_key.size() + 40, description_max + succession_bytes_max);
  constexpr std::size_t least = 6;
  return room > grant ? std::max((room - grant) / bytes_of_move(f), least) : least;
}

bool has_room_for_number(const facts& f, const moves& what, const grant_plan& next) {
  const std::size_t used = operations(f, what) + 2 * next.granted.size() + next.given_back.size() +
                           4 * (next.taken_back.size() + next.gone.size());
  return used + ending_at_once < operations_for_moves;
}

plan_rules rules_for(moment& at, const facts& f, const moves& what, const other_holders& others, const grant_duty& duty,
                     const std::vector<const contender*>& taken_back, const std::vector<const contender*>& gone) {
  const snapshot& now = f.now();
  const pool_options& o = f.parts.options;
  plan_rules rules;
  // The recorded limit is written unchanged if it is the one in force, or if this process has rejected it.
  const bool theirs = f.parts.situation.limit_disagrees || (o.use_recorded_limit && now.lock_index != 0);
  rules.limit = theirs ? now.record.limit : f.parts.situation.limit;
  for (const moves::list* list : {&what.give_back, &what.requeue, &what.leave})
    for (const member* m : *list) rules.leaving.push_back(m->session);
  // Sessions of ours that must end. If the record still names a session, the write that takes it out of the record also
  // removes its entry. Otherwise checks of that entry (`entries_of`) would still succeed when the slot belongs to
  // somebody else.
  std::size_t used = operations(f, what), ending = 0;
  for (const auto& [session, its] : f.parts.members.ending()) {
    const bool holds = now.holds(session) || now.has_given_back(session);
    if (holds && (ending == ending_at_once || used + 2 >= operations_max)) continue;  // the next write
    rules.leaving.push_back(session);
    ending += holds;
    used += holds;
  }
  // Sessions of other processes that have released their slots without writing the record. Their entries go, too.
  for (const contender& each : now.given_back) {
    if (rules.given_back.size() == given_back_at_once || used + 2 >= operations_max) break;  // the next write
    if (f.parts.members.is_ours(each.session)) continue;
    rules.given_back.push_back(&each);
    ++used;
  }
  for (const contender* each : taken_back) {
    if (rules.taken_back.size() == given_back_at_once || used + 5 >= operations_max) break;  // the next write
    rules.taken_back.push_back(each);
    used += o.numbered ? 4 : 3;
  }
  for (const contender* each : gone) {
    const bool is_listed = std::find(rules.taken_back.begin(), rules.taken_back.end(), each) != rules.taken_back.end();
    if (rules.gone.size() == given_back_at_once || used + 5 >= operations_max) break;  // the next write
    if (is_listed) continue;                                                           // the write removes it already
    rules.gone.push_back(each);
    used += o.numbered ? 3 : 2;
  }
  if (!rules.taken_back.empty())
    for (const contender& entry : now.contenders) {
      if (rules.living.size() == rules.taken_back.size()) break;
      const bool leaves = std::find(rules.leaving.begin(), rules.leaving.end(), entry.session) != rules.leaving.end();
      if (f.parts.members.is_ours(entry.session) && is_waiting(now, entry) && !leaves) rules.living.push_back(&entry);
    }
  if (o.form == record_form::session) rules.spared = now.record.holders;  // Consul itself prunes
  others.spare(at, rules, now, f.parts.members, o);
  rules.passed_over = f.parts.claims.passed_over();
  const std::size_t room = used < operations_max - 2 ? operations_max - 2 - used : 0;
  const std::size_t each = o.numbered ? 2 : 1;  // a number may go with it
  const std::size_t bytes = room_beside(now.record, o.lock_key, o.request_bytes);
  const std::size_t fit = grants_that_fit(bytes - std::min(bytes, used * bytes_of_move(f)), o.lock_key);
  rules.grants_max = !what.gives() || duty.grants_with_release() ? std::min(room / each, fit) : 0;
  return rules;
}

}  // namespace holdfast::protocol

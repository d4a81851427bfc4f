#include <algorithm>
#include <limits>
#include <utility>

#include "protocol/pool.hpp"

// What we write to the cluster: one transaction at a time, with everything that is due.

namespace holdfast::protocol {

namespace {

constexpr unsigned once_conflicts_max = 3;
/// So often a release is tried again because those to whom it grants the slot have left, or left and come back.
constexpr unsigned grant_refusals_max = 2;

/// For how long the process that lets a mutex go does not take it itself.
constexpr duration courtesy_pause = std::chrono::milliseconds(10);

/// Room for the write of the record, and for a listing.
constexpr std::size_t operations_for_moves = operations_max - 4;
/// So many sessions that must end are taken out of the record by one write.
constexpr std::size_t doomed_at_once = 8;

}  // namespace

void pool::write() {
  if (txn_) return;
  if (unresolved_) return unresolved_->by_record ? read_record() : read_prefix();
  const bool stands = any_standing(standing::waiting) || any_standing(standing::holding);
  if (waiters_.empty() && !stands && !owes_a_grant_) return;
  if (all_in_use()) {  // so no failure keeps anybody waiting
    outage_.over();
    write_outage_.over();
    create_outage_.over();
    return;
  }
  if (!due(outage_.retry_at()) || !due(write_outage_.retry_at()) || !due(write_at_)) return;
  switch (view_.state()) {
    case view::state::none:
      if (!waiters_.empty()) read_prefix();
      break;
    case view::state::stale:
      // Whoever only wants to join can do that and look in one request.
      if (stands || waiters_.empty() || waiters_.front().once) {
        read_prefix();
        break;
      }
      write_from_view();
      break;
    case view::state::partial:
      // To wait, nothing more need be known; nor to join, or leave, the queue; unless a slot stays free for a Go
      // contender, whose time must end. What is given back can be handed on to whoever is known to come next.
      if (owes_a_grant_ || (foreign_ && stands && is_any_free()) || (!spares_.empty() && !contested_) ||
          (!waiters_.empty() && waiters_.front().once)) {
        read_prefix();
        break;
      }
      if (view_.outrun() && std::any_of(spares_.begin(), spares_.end(), [&](auto* m) { return !lacks_number(*m); })) {
        read_record();
        break;
      }
      [[fallthrough]];
    case view::state::current:
      write_from_view();
      break;
  }
  // What is not tried again though its time has come, nobody needs any more.
  const bool creates = create_outage_.on() || std::any_of(members_.begin(), members_.end(), [](const auto& m) {
                         return m.second.phase == phase::creating;
                       });
  if (txn_ || read_ != 0 || creates) return;
  outage_.over();
  write_outage_.over();
}

void pool::write_from_view() {
  if (!fail_too_wide()) return read_prefix();
  if (limit_disagrees_ && !waiters_.empty()) {
    if (view_.as_of() <= waiters_.front().asked) return read_prefix();
    failure why = failed(error::limit_conflict, "the record in use has another limit than this semaphore");
    why.details.limit_conflict = {view_.now().record.limit, limit_};
    fail_waiters(why);
  }
  moves unclaimed;  // who only lingers has no claim on what somebody here wants now
  for (auto& [id, m] : members_)
    if (m.lingers && m.phase == phase::ready && m.standing == standing::waiting) unclaimed.leave.push_back(&m);
  const demand need = wanted([&] {
    const std::uint32_t free = view_.current() ? plan(view_.now(), rules_for(unclaimed)).free : 0;
    const auto usable = std::count_if(spares_.begin(), spares_.end(), [this](const member* m) { return !spent(*m); });
    return static_cast<std::uint32_t>(usable) + free;
  });
  if (need.looks) read_prefix();  // what goes back does not wait for that

  moves what = choose_moves(need);
  if (!view_.current()) {
    choose_numbers(what);
    if (what.gives()) return hand_on(what);
    if (!what.empty()) send(what, {}, false);
    return;
  }
  grant_plan next = plan(view_.now(), rules_for(what));
  if (need.slots != 0 || any_standing(standing::waiting))
    while (indulge(next)) next = plan(view_.now(), rules_for(what));
  if (next.granted.empty() && grants_something(what)) owes_a_grant_ = false;  // there is nobody to grant
  // Who lingers would come into a slot at once.
  if (next.free != 0 && !what.requeue.empty() && what.requeue.front()->lingers) {
    what.requeue.front()->lingers = false;
    what.give_back.swap(what.requeue);
  }

  // What nobody who waits has a claim on, the newcomers take in the same write.
  if (what.gives() && is_courtesy_due()) next.free = 0;
  if (!what.gives() && operations(what) > moves_beside_record()) next.free = 0;  // they queue at first
  bool takes = false;
  for (const std::vector<member*>* newcomers : {&what.requeue, &what.join})
    for (member* m : *newcomers) {
      if (next.free == 0) break;
      next.record.add(m->session);
      --next.free;
      takes = true;
      const bool has_room = operations(what) + 2 * next.granted.size() + doomed_at_once < operations_for_moves;
      if (options_.numbered && newcomers == &what.join && has_room) what.number.push_back(m);
    }
  choose_numbers(what);
  const bool writes_record = what.gives() || takes || may_grant(next);
  if (writes_record || !what.empty()) send(what, next, writes_record);
}

/// Gives slots back to those who are known to come next. There must be enough of them: whoever leaves a slot free has
/// to know everybody.
void pool::hand_on(const moves& what) {
  if (view_.outrun()) return read_record();
  plan_rules rules = rules_for(what);
  rules.complete = false;
  const grant_plan next = plan(view_.now(), rules);
  if (next.free != 0 || next.granted.empty() || !next.left_free.empty()) return read_prefix();
  send(what, next, true);
}

/// What the queue needs beyond the slots in use: whole requests, in order, as long as they fit. A waiter that only
/// looks gets its own if they are among those that can be had at once; else it is told no, by a view younger than it.
pool::demand pool::wanted(const std::function<std::uint32_t()>& count_takeable) {
  demand need;
  std::optional<std::uint32_t> takeable;
  if (closing_) return need;
  const std::uint32_t room = limit_ - std::min(limit_, in_use_);
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
      } else if (view_.as_of() > w.asked || w.conflicts >= once_conflicts_max) {
        denied.push_back(w.ticket);
        return true;
      } else {
        need.looks = true;
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

pool::moves pool::choose_moves(const demand& need) {
  moves what;
  std::size_t kept = 0;
  std::vector<member*> ending;  // which nobody may use again
  // Whoever is first has all its slots, but for their numbers?
  const auto unspent = static_cast<std::size_t>(
      std::count_if(spares_.begin(), spares_.end(), [&](const member* m) { return !spent(*m); }));
  const std::size_t first = options_.numbered && !need.requests.empty() ? need.requests.front() : 0;
  std::size_t awaited = first <= unspent ? first : 0;
  for (member* m : spares_) {
    if (std::exchange(m->lingers, false) && need.slots == 0) returns_soon_ = false;
    const bool is_awaited = awaited != 0 && !spent(*m);
    awaited -= is_awaited;
    if (is_awaited || keeps(*m, need)) {
      free_of_slot(m->releasing);
      ++kept;
      if (lacks_number(*m)) what.number.push_back(m);
    } else {
      (m->lost ? ending : what.give_back).push_back(m);
    }
  }
  std::vector<member*> waiting, absent;
  std::size_t creating = 0;
  for (auto& [id, m] : members_) {
    creating += m.phase == phase::creating;
    if (m.phase != phase::ready) continue;
    if (m.lost) {  // taken away, and not to be granted again
      if (m.standing == standing::waiting) what.leave.push_back(&m);
      continue;
    }
    if (m.standing == standing::waiting) waiting.push_back(&m);
    if (m.standing == standing::absent) absent.push_back(&m);
  }
  std::size_t missing = need.slots > kept ? need.slots - kept : 0;

  // What goes back but is still wanted here joins again at the back. A wide request's entries move there together:
  // standing together they are filled together, and no two wide requests can each hold half.
  const bool wide = !need.requests.empty() && need.requests.front() > 1;
  while (what.requeue.size() < missing && !what.give_back.empty()) {
    what.requeue.push_back(what.give_back.back());
    what.give_back.pop_back();
  }
  if (returns_soon_ && contested_ && !closing_ && need.slots == 0 && what.give_back.size() == 1 && waiting.empty()) {
    what.requeue.swap(what.give_back);
    what.requeue.front()->lingers = true;
  }
  if (wide && !what.requeue.empty()) {
    while (what.requeue.size() < missing && !waiting.empty()) {
      what.requeue.push_back(waiting.back());
      waiting.pop_back();
    }
  }
  missing -= std::min(missing, what.requeue.size());
  what.give_back.insert(what.give_back.end(), ending.begin(), ending.end());

  // The newest leave when there are too many.
  std::sort(waiting.begin(), waiting.end(), [this](const member* a, const member* b) {
    return view_.now().find(a->session) < view_.now().find(b->session);
  });
  const auto stays = [&](const member& m) {
    return m.lingers && need.slots == 0 && !closing_ && !due(m.waiting_since + options_.linger);
  };
  while (waiting.size() > missing && !stays(*waiting.back())) {
    if (waiting.back()->lingers) returns_soon_ = false;
    what.leave.push_back(waiting.back());
    waiting.pop_back();
  }
  missing -= std::min(missing, waiting.size());
  if (missing <= absent.size()) create_outage_.over();
  if (missing > absent.size() + creating) create_sessions(missing - absent.size() - creating);

  cut(what, what.gives() ? std::min(moves_beside_record(), operations_for_moves) : operations_for_moves);
  if (absent.size() > missing) absent.resize(missing);
  what.join = std::move(absent);
  join_whole_requests(what, need, kept + what.requeue.size() + waiting.size());
  return what;
}

/// The rest goes with the next write.
void pool::cut(moves& what, std::size_t most) const {
  while (operations(what) > most) {
    std::vector<member*>& last = !what.number.empty()    ? what.number
                                 : !what.leave.empty()   ? what.leave
                                 : !what.requeue.empty() ? what.requeue
                                                         : what.give_back;
    last.pop_back();
  }
}

/// How many operations of ours have room in a request beside the record and one grant: more than one member needs. Only
/// a very long record leaves less than a transaction takes.
std::size_t pool::moves_beside_record() const {
  const std::size_t room = room_beside(view_.now().record, options_.lock_key, options_.request_bytes);
  const std::size_t grant = bytes_of_operation(options_.lock_key.size() + 40, description_max + succession_bytes_max);
  constexpr std::size_t least = 6;
  return room > grant ? std::max((room - grant) / bytes_of_move(), least) : least;
}

std::size_t pool::bytes_of_move() const {
  return bytes_of_operation(options_.lock_key.size() + 40, options_.description.size() + options_.node.size() + 64);
}

/// Cuts the newcomers down to as many as fill whole requests, on top of the `supply` there is, and fit the transaction.
void pool::join_whole_requests(moves& what, const demand& need, std::size_t supply) {
  const std::size_t all = what.gives() ? std::min(moves_beside_record(), operations_for_moves) : operations_for_moves;
  const std::size_t others = operations(what) - what.join.size();
  const std::size_t room = all - std::min(all, others);
  const std::size_t most = supply + std::min(what.join.size(), room);
  std::size_t whole = 0;
  for (const std::uint32_t count : need.requests) {
    if (whole + count > most) break;
    whole += count;
  }
  what.join.resize(whole > supply ? whole - supply : 0);
}

/// Whoever leaves its slot gives its number back, too.
std::size_t pool::operations(const moves& what) const {
  const std::size_t numbers = numbers_left(what, std::numeric_limits<std::uint32_t>::max()).size();
  return what.give_back.size() + 2 * what.requeue.size() + what.leave.size() + what.join.size() + what.number.size() +
         numbers;
}

/// The numbers of those who leave their slots, as far as they are below the limit.
std::vector<std::uint32_t> pool::numbers_left(const moves& what, std::uint32_t limit) const {
  std::vector<std::uint32_t> numbers;
  for (const std::vector<member*>* list : {&what.give_back, &what.requeue})
    for (const member* m : *list)
      if (const slot_number* const its = number_of(*m); its && its->number < limit) numbers.push_back(its->number);
  return numbers;
}

/// A number for each that needs one, of those that nobody is known to have: from any place on, so that two who choose
/// at once seldom choose the same. Whoever gets none waits.
void pool::choose_numbers(moves& what) {
  if (what.number.empty()) return number_outage_.over();
  if (due(number_outage_.retry_at())) {
    std::vector<bool> taken(limit_, false);
    for (const slot_number& each : view_.now().numbers)
      if (!each.session.empty() && each.number < limit_) taken[each.number] = true;
    for (const auto& [holder, its] : holders_)
      if (its.number && *its.number < limit_ && is_spared(its)) taken[*its.number] = true;
    for (const auto& [number, delay] : number_delays_)
      if (number < limit_ && !due(delay.retry_at())) taken[number] = true;
    const auto first = static_cast<std::uint32_t>(random_.between(duration(0), duration(limit_ - 1)).count());
    for (std::uint32_t i = 0; i != limit_ && what.numbers.size() < what.number.size(); ++i)
      if (const std::uint32_t number = (first + i) % limit_; !taken[number]) what.numbers.push_back(number);
    if (what.numbers.empty()) seek_numbers();
  }
  what.number.resize(what.numbers.size());
}

/// There is none: looks again, after pauses.
void pool::seek_numbers() {
  if (view_.as_of() <= numbers_sought_) return read_prefix();
  if (!waiters_.empty() && waiters_.front().once) waiters_.front().conflicts = once_conflicts_max;
  numbers_sought_ = last_request_;
  number_outage_.failed({}, now_, random_);
  wake_at(number_outage_.retry_at());
}

/// Whether a slot that nobody uses stays here.
bool pool::keeps(const member& m, const demand& need) {
  if (closing_ || spent(m)) return false;
  if (!contested_ && !waiters_.empty()) return true;
  if (need.slots == 0) return !contested_ && !due(std::min(m.idle_since + options_.idle, courtesy_at()));
  // Part of a wide request, with others waiting elsewhere: it stays while all who stand before us come into free slots.
  const snapshot& now = view_.now();
  std::size_t free = limit_ - std::min<std::size_t>(limit_, now.record.holders.size());
  for (const contender& entry : now.contenders) {
    if (!is_waiting(now, entry) || passed_over(entry.session)) continue;
    if (is_ours(entry.session)) return true;
    if (free-- == 0) return false;
  }
  return true;
}

plan_rules pool::rules_for(const moves& what) {
  plan_rules rules;
  // What is adopted is never changed by us, whatever we made of it.
  const bool theirs = limit_disagrees_ || (options_.adopt && view_.now().lock_index != 0);
  rules.limit = theirs ? view_.now().record.limit : limit_;
  for (const std::vector<member*>* list : {&what.give_back, &what.requeue, &what.leave})
    for (const member* m : *list) rules.leaving.push_back(m->session);
  // Sessions of ours that must end. Of those that still hold by the record, the entries go with the write that takes
  // them out of it, or `entries_of` would guard what is another's by then.
  std::size_t used = operations(what), ending = 0;
  for (const auto& [session, d] : doomed_) {
    const bool holds = view_.now().holds(session);
    if (holds && (ending == doomed_at_once || used + 2 >= operations_max)) continue;  // the next write
    rules.leaving.push_back(session);
    ending += holds;
    used += holds;
  }
  if (options_.form == record_form::session) rules.spared = view_.now().record.holders;  // Consul itself prunes
  for (const auto& [holder, its] : holders_) {
    if (!is_spared(its)) continue;
    if (options_.form == record_form::session)
      ++rules.withheld;
    else
      rules.spared.push_back(holder);
  }
  spare_the_unseen(rules);
  for (const auto& [session, seen] : indulged_)
    if (seen.passed_over) rules.passed_over.push_back(session);
  const std::size_t room = used < operations_max - 2 ? operations_max - 2 - used : 0;
  const std::size_t each = options_.numbered ? 2 : 1;  // a number may go with it
  const std::size_t bytes = room_beside(view_.now().record, options_.lock_key, options_.request_bytes);
  const std::size_t fit = grants_that_fit(bytes - std::min(bytes, used * bytes_of_move()), options_.lock_key);
  rules.grants_max = grants_something(what) ? std::min(room / each, fit) : 0;
  return rules;
}

/// After a session of ours has ended by itself: whoever held by another one of its node, and was never seen here.
void pool::spare_the_unseen(plan_rules& rules) {
  const snapshot& now = view_.now();
  const bool is_mutex = options_.form == record_form::session;
  if (due(unseen_believe_until_)) return;
  if (is_mutex) {
    rules.withheld += now.lock_index == 0;
    return;
  }
  const auto is_unseen = [&](const std::string& holder) {
    return !now.find(holder) && !is_ours(holder) && !former_.contains(holder) && !holders_.contains(holder);
  };
  std::copy_if(now.record.holders.begin(), now.record.holders.end(), std::back_inserter(rules.spared), is_unseen);
}

/// A slot that nobody is seen to wait for long enough goes back all the same; what is owed then can be granted later.
bool pool::grants_something(const moves& what) const { return !what.gives() || grants_refused_ < grant_refusals_max; }

/// A free slot is written to the head of the queue by the head's own process. The others wait a while before they do it
/// in its place, so that a dead holder costs one write, not one for each who waits.
bool pool::may_grant(const grant_plan& next) {
  if (owes_a_grant_) return true;
  if (next.granted.empty() || !any_standing(standing::waiting)) {
    stalled_until_ = never;
    return false;
  }
  if (find(next.granted.front()->session)) return true;
  if (stalled_until_ == never)
    stalled_until_ = now_ + random_.between(options_.grant_backup, 2 * options_.grant_backup);
  return due(stalled_until_);
}

/// When it is time to give those a chance of whom nothing is seen.
time_point pool::courtesy_at() const {
  if (options_.form != record_form::session || options_.courtesy == duration::zero()) return never;
  // Where many contend, each sees little of the others: together they let it go as often.
  const std::size_t crowd = view_.now().crowd();
  const std::size_t share = crowd > options_.watch_all_max ? crowd : 1;
  return free_at_ + static_cast<duration::rep>(share) * options_.courtesy;
}

/// Go and guide contenders take their slot themselves. True if one had its time and did not: it is passed over until
/// its entry changes.
bool pool::indulge(const grant_plan& next) {
  bool changed = false;
  for (const contender* entry : next.left_free) {
    const duration patience = random_.between(options_.patience, options_.patience * 3 / 2);
    indulged& seen =
        indulged_.try_emplace(entry->session, indulged{entry->modify_index, now_ + patience}).first->second;
    if (!due(seen.until)) continue;
    seen.passed_over = changed = true;
    act(action::note{"contender " + entry->session + " of another kind does not take its slot: passed over"});
  }
  return changed;
}

void pool::create_sessions(std::size_t count) {
  if (!due(create_outage_.retry_at())) return;
  while (count-- != 0 && members_.size() < limit_) {
    member m;
    create(m);
    m.idle_since = now_;
    members_.emplace(m.id, std::move(m));
  }
}

void pool::read_prefix() {
  if (read_ != 0 || !due(outage_.retry_at())) return;
  read_ = ++last_request_;
  read_at_ = prefix_read_at_ = now_;
  act(action::list_prefix{read_, 0, {}});
}

void pool::read_record() {
  if (read_ != 0 || !due(outage_.retry_at())) return;
  read_ = ++last_request_;
  read_at_ = now_;
  act(action::watch_key{read_, options_.lock_key, 0, {}});
}

void pool::send(const moves& what, grant_plan next, bool writes_record) {
  const snapshot& now = view_.now();
  pending_txn txn;
  txn.id = ++last_request_;
  txn.sent_at = now_;
  txn.base = now.lock_index;
  txn.guarded = writes_record;
  std::vector<operation>& ops = txn.operations;

  std::map<std::uint32_t, const contender*> heirs;  // who gets the numbers that go with slots given away
  const contender* woken = nullptr;
  if (what.gives() && is_courtesy_due()) {
    if (!next.granted.empty()) woken = next.granted.front();
    if (woken) next.record.drop(woken->session);
    next.granted.clear();
    if (!what.requeue.empty()) write_at_ = now_ + random_.between(courtesy_pause, 2 * courtesy_pause);
  }
  if (writes_record) {
    txn.record = next.record;
    ops = rewrite(options_.lock_key, now, next.record, options_.description, value_);
    txn.record_operations = ops.size();
    std::vector<std::uint32_t> free = numbers_left(what, next.record.limit);
    for (const contender* entry : next.granted) {
      txn.granted.push_back(entry->session);
      next.after.number.reset();
      if (is_numbered(entry->flags) && !free.empty()) {
        next.after.number = free.back();
        heirs[free.back()] = entry;
        free.pop_back();
      }
      ops.push_back(grant_to(*entry, entry_key(entry->session), next.after));
    }
    for (const auto& [session, d] : doomed_) {
      if (!now.holds(session) || txn.record.names(session)) continue;
      ops.push_back({verb::remove, entry_key(session)});
      txn.removed.push_back(session);
    }
    if (woken) {  // any change of its entry does that
      txn.woken = woken->session;
      ops.push_back({verb::cas, entry_key(woken->session), touched(woken->value), woken->flags, woken->modify_index});
    }
    const std::size_t limit = next.record.limit;
    txn.frees = !woken && now.record.holders.size() >= limit && next.record.holders.size() < limit;
    if (txn.frees) txn.look = look::everything;
  } else if (!what.join.empty()) {
    const bool known = view_.state() != view::state::none && view_.state() != view::state::stale;
    const bool many = now.crowd() > options_.watch_all_max;
    // Sometimes everybody must look whether the others still live, however short they want to wait.
    const bool lately = now_ < listed_at_ + own_watch();
    txn.look = known && lately && many && !foreign_ && !wide() ? look::record : look::everything;
  }
  const auto move = [&](member& m, bool out, bool in) {
    m.phase = phase::moving;
    std::erase(spares_, &m);
    txn.movers.push_back(&m);
    const bool keeps_number = m.lost && m.slot != slot_id::none;  // as long as its user has not let go
    if (const slot_number* const its = keeps_number ? nullptr : number_of(m)) {
      const std::string key = number_key(its->number);
      const auto heir = heirs.find(its->number);
      const bool goes_on = heir != heirs.end();
      ops.push_back({verb::unlock, key, options_.description, mutex_flags, 0, m.session});
      txn.numbers.push_back({its->number, goes_on ? heir->second->session : std::string(), 0});
      if (goes_on) {
        std::string words(words_in(heir->second->value).description);
        ops.push_back({verb::lock, key, std::move(words), mutex_flags, 0, heir->second->session});
      }
    }
    if (out) txn.removed.push_back(m.session), ops.push_back({verb::remove, entry_key(m.session)});
    if (!in) return;
    m.text = entry_text();
    txn.inserted.emplace_back(m.session, m.text);
    ops.push_back({verb::lock, entry_key(m.session), m.text, entry_flags(), 0, m.session});
  };
  for (member* m : what.give_back) move(*m, true, false);
  for (member* m : what.leave) {  // if nobody has granted it meanwhile
    move(*m, true, false);
    ops.back() = {verb::remove_cas, ops.back().key, {}, 0, now.find(m->session)->modify_index};
  }
  for (member* m : what.requeue) move(*m, true, true);
  for (member* m : what.join) move(*m, false, true);
  for (std::size_t i = 0; i != what.number.size(); ++i) {
    member& m = *what.number[i];
    if (m.phase != phase::moving) move(m, false, false);
    txn.numbers.push_back({what.numbers[i], m.session, 0});
    ops.push_back({verb::lock, number_key(what.numbers[i]), options_.description, mutex_flags, 0, m.session});
  }
  // Below a mutex's key stand the entries. Without one there is nothing to be read: such a write is refused.
  const verb one = options_.form == record_form::session ? verb::get : verb::get_tree;
  if (txn.look == look::record) ops.push_back({one, options_.lock_key});
  if (txn.look == look::everything) ops.push_back({verb::get_tree, options_.prefix});

  act(action::send_txn{txn.id, ops});
  txn_ = std::move(txn);
}

}  // namespace holdfast::protocol

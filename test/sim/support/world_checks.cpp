// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <numeric>

#include "consul/encoding/json.hpp"
#include "protocol/pool/acceptance.hpp"
#include "protocol/record/entry_value.hpp"
#include "runtime/convert.hpp"
#include "sim/support/world_impl.hpp"
#include "sim/support/write_checks.hpp"

namespace holdfast::test {

snapshot world::standing() const {
  return *make_snapshot(options_.mutex ? world_mutex_entries : world_prefix, world_lock_key, consul_.list(world_prefix),
                        0, options_.mutex ? record_form::session : record_form::map);
}

/// Returns the state of Consul. It is read again only after a write, because the checks ask for it after every step,
/// and most steps write nothing.
const snapshot& world::look() {
  const std::uint64_t index = consul_.store.raft_index();
  if (seen_at_ == index) return seen_;
  const auto has_ended = [this](const std::string& holder) {
    return seen_.find(holder) && !consul_.has_session(holder);
  };
  if (options_.health_checks && std::any_of(seen_.record.holders.begin(), seen_.record.holders.end(), has_ended))
    withheld_until_ = now() + options_.ttl + options_.ttl / 10;
  seen_ = standing();
  seen_at_ = index;
  holders_ = live_holders(seen_);
  note_open_grants();
  check_withheld();
  return seen_;
}

/// True if the queue has an entry without a user: its process has gone or has given the entry up, and its session has
/// not ended yet. Such an entry is granted a slot when its turn comes. The contender behind it watches only this entry,
/// and is not told of a free slot.
bool world::anyone_is_orphaned() const {
  return std::any_of(seen_.contenders.begin(), seen_.contenders.end(), [this](const contender& each) {
    const auto is_its = [&](const auto& p) { return p->alive && p->sessions.contains(each.session); };
    const auto is_theirs = [&](const stranger& go) { return go.session == each.session; };
    return !seen_.record.names(each.session) &&
           (unwanted_.contains(each.session) || (std::none_of(processes_.begin(), processes_.end(), is_its) &&
                                                 std::none_of(strangers_.begin(), strangers_.end(), is_theirs)));
  });
}

/// Returns the number of slots: the recorded limit if administrators can change it, and otherwise the limit of the
/// options.
std::uint32_t world::limit() {
  look();
  return options_.administrators != 0 && seen_.lock_index != 0 ? seen_.record.limit : options_.limit;
}

void world::check_withheld() {
  const bool withheld =
      seen_.record.closed || (options_.administrators != 0 && seen_.lock_index != 0 && holders_ > seen_.record.limit);
  if (!withheld)
    withheld_since_ = never;
  else if (withheld_since_ == never)
    withheld_since_ = now();
}

/// A user that still acts on a lost slot counts as a holder until Consul itself ends the session. If the process
/// destroys the session before that, the user counts on. Only a process that closes may destroy it, or a process whose
/// reads hide the entry of the session.
void world::check_bodies() {
  for (const auto& p : processes_)
    std::erase_if(p->bodies, [&](const auto& each) {
      const auto& [sessions, until] = each.second;
      const bool over = now() >= until || referee_.excused(now()) || is_hidden_from(*p) ||
                        std::any_of(sessions.begin(), sessions.end(), [&](const std::string& session) {
                          if (is_forgotten(session)) return true;  // it has ended before its time
                          return !consul_.has_session(session) && (p->closing || !given_up_.contains(session));
                        });
      if (over) referee_.has_ended(p->number, each.first);
      return over;
    });
}

/// G9: a process is told in time that the lease of its slot is over.
void world::check_told() {
  const duration time = options_.ttl / 6;
  for (const auto& p : processes_) {
    if (!p->alive || p->paused || now() < p->runs_since + time) continue;
    for (const auto& [slot, deadline] : p->leases)
      if (truly(*p, deadline) + time < now())
        object(guarantee::losses, name(*p) + " is not told that its lease is over");
  }
}

void world::check_all() {
  check_bodies();
  check_told();
  const auto is_excused_belief = [this](int number, slot_id slot) {
    const auto its =
        std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p->number == number; });
    return its != processes_.end() && is_excused(**its, slot);
  };
  if (forgotten_.empty())
    referee_.check_believers(now());
  else
    referee_.check_believers(now(), is_excused_belief);
  const std::uint64_t index = consul_.store.raft_index();
  const bool written = index != std::exchange(checked_at_, index);
  if (written) news_.push_back(now());
  if (options_.locks != 0) {
    if (std::exchange(beliefs_changed_, false) || written || referee_.excused(now())) check_locks();
    return check_answered();
  }
  if (std::exchange(beliefs_changed_, false) || written || referee_.excused(now()) || !forgotten_.empty()) {
    check_backing();
    check_numbers();
    check_guards();
  }
  if (options_.administrators != 0) check_revoked();
  if (options_.election) check_observers();
  if (options_.run_directory) check_makers();
  check_use();
}

void world::check_record(const process* sender, const snapshot& before) {
  // A write from an earlier history may do anything to this one, so it is judged as an operator's: see
  // `forget_history`.
  const bool answers_for_it = sender && now() >= strays_until_;
  const write_rules rules{answers_for_it ? name(*sender) : "", options_.limit, options_.administrators != 0};
  check_write(referee_, rules, before, look());
}

/// G11: a process tells its user when an operator wants the slot.
void world::check_revoked() {
  const snapshot& seen = look();
  for (const auto& p : processes_) {
    if (!p->alive || is_disturbed(*p))
      p->clear_since = never;
    else if (p->clear_since == never)
      p->clear_since = now();
    const auto wanted = [&](const auto& lease) {
      const auto entries = p->pool->entries_of(lease.first);
      return !p->revoked.contains(lease.first) &&
             std::any_of(entries.begin(), entries.end(), [&](const protocol::pool::entry& each) {
               return seen.record.revokes(each.session) && seen.holds(each.session);
             });
    };
    const bool untold = !seen.record.revoked.empty() && p->clear_since != never &&
                        std::any_of(p->leases.begin(), p->leases.end(), wanted);
    if (!untold)
      p->untold_since = never;
    else if (p->untold_since == never)
      p->untold_since = now();
    else if (now() - p->untold_since > 1s)
      object(guarantee::orders, name(*p) + " does not tell its user that its slot is wanted");
  }
}

/// G3: a process that believes in a slot is a live holder in the record. G9: if an operator has taken the slot away,
/// the process is told.
void world::check_backing() {
  const snapshot& seen = look();
  for (const auto& p : processes_) {
    if (!p->alive || p->leases.empty()) {
      p->unbacked_since = never;
      continue;
    }
    const auto named = std::count_if(seen.record.holders.begin(), seen.record.holders.end(), [&](const auto& holder) {
      return p->sessions.contains(holder) && seen.find(holder);
    });
    std::uint32_t believed = referee_.believed(p->number, now());
    for (const auto& [slot, deadline] : p->leases)
      if (is_forgotten(*p, slot) && now() < truly(*p, deadline))
        believed -= static_cast<std::uint32_t>(p->held_by.at(slot).size());
    // Each slot is checked by itself, too. Otherwise a spare slot of the same process would make up for one that is not
    // backed.
    const auto is_backed = [&](const auto& lease) {
      const auto entries = p->pool->entries_of(lease.first);
      return now() >= truly(*p, lease.second) ||
             std::all_of(entries.begin(), entries.end(), [&](const auto& each) { return seen.holds(each.session); });
    };
    const auto is_backed_or_forgotten = [&](const auto& lease) {
      return is_forgotten(*p, lease.first) || is_backed(lease);
    };
    const bool enough = believed <= static_cast<std::uint32_t>(named);
    const bool backed = enough && std::all_of(p->leases.begin(), p->leases.end(), is_backed_or_forgotten);
    // Nothing wakes a watch whose index is from before a snapshot was restored.
    const bool sleeps = std::any_of(watches_.begin(), watches_.end(), [&](const watch& w) {
      return w.owner == p.get() && w.index > consul_.store.index_of(w.what);
    });
    if ((enough && std::all_of(p->leases.begin(), p->leases.end(), is_backed)) || is_disturbed(*p) || sleeps)
      p->unbacked_since = never;
    else if (p->unbacked_since == never)
      p->unbacked_since = now();
    // A read that hides a pending write of the process may mislead it about the outcome.
    if (!backed && !is_excused() && !is_hidden_from(*p))
      object(guarantee::backing, name(*p) + " believes in " + std::to_string(believed) + ", the record names " +
                                     std::to_string(named) + " of it");
    if (p->unbacked_since != never && now() - p->unbacked_since > 1s)
      object(guarantee::losses, name(*p) + " is not told that its slot is gone");
  }
}

/// G13: no two processes believe in the same number, and Consul has locked each number for the process that believes in
/// it.
void world::check_numbers() {
  if (referee_.excused(now())) return;
  std::map<std::uint32_t, const process*> owners;
  for (const auto& p : processes_)
    for (const auto& [slot, numbers] : p->numbers) {
      if (now() >= truly(*p, p->leases.at(slot)) || is_excused(*p, slot)) continue;
      for (const std::uint32_t each : numbers) {
        if (!owners.emplace(each, p.get()).second)
          object(guarantee::numbers, std::to_string(each) + " is had twice, by " + name(*p) + ", too");
        const auto& all = look().numbers;
        if (!is_forgotten(*p, slot) && std::none_of(all.begin(), all.end(), [&](const slot_number& its) {
              return its.number == each && p->sessions.contains(its.session);
            }))
          object(guarantee::numbers, name(*p) + " believes in number " + std::to_string(each) + ", which it has not");
      }
    }
}

/// G14: a fence check succeeds only while the session holds the slot. This does not depend on who asks, or how late.
void world::check_guards() {
  if (is_excused()) return;
  const snapshot& seen = look();
  for (const auto& p : processes_)
    for (const protocol::core::entry& guard : p->guards) {
      const contender* const entry = seen.find(guard.session);
      const bool is_true =
          entry && (entry->modify_index == guard.grant || sabotage_.which() == seeded_bug::guard_any_grant);
      if (is_true && !seen.record.names(guard.session))
        object(guarantee::guards, name(*p) + " could write by " + guard.session + ", which has no slot");
    }
}

bool world::is_forgotten(const process& p, slot_id slot) const {
  const auto by = p.held_by.find(slot);
  return by != p.held_by.end() && std::any_of(by->second.begin(), by->second.end(),
                                              [this](const auto& session) { return is_forgotten(session); });
}

bool world::is_excused(const process& p, slot_id slot) const {
  const auto by = p.held_by.find(slot);
  return by != p.held_by.end() && std::any_of(by->second.begin(), by->second.end(), [this](const auto& session) {
           return is_forgotten(session) && forgotten_.at(session).excused;
         });
}

/// True if news from Consul reaches the process slowly or not at all.
bool world::is_disturbed(const process& p) const {
  return p.paused || p.deaf || now() < p.cut_off_until || now() < p.refused_until || now() < p.errors_until ||
         now() < p.hidden_until || now() < no_leader_until_ || (faults() && options_.request_faults != 0);
}

/// G6: a contender that is granted has waited longest, of those whose processes still want a slot. A contender that
/// takes a free slot as it joins is not judged, because it may not have seen who joined just before. A time for which
/// nothing is promised is left out, because a restored snapshot brings back contenders that had left.
void world::check_order(const process* sender, const snapshot& before) {
  if (referee_.excused(now())) return;
  const snapshot& after = look();
  const auto maker = [](const contender& each) { return protocol::parse_entry_value(each.value).description; };
  // A process grants the slots that it takes back to its own waiters first, because they certainly live. It grants the
  // other entries of the process that has not accepted last, and other processes may do the same. So any grant may
  // overtake such an entry.
  bool takes_back = false;
  for (const contender& each : before.contenders) {
    if (!protocol::is_provisional(each.flags) || !before.record.names(each.session) || after.find(each.session))
      continue;
    takes_back = true;
    doubted_[std::string(maker(each))] = consul_.store.raft_index();
  }
  const auto is_doubted = [&](const contender& each) {
    const auto its = doubted_.find(std::string(maker(each)));
    return its != doubted_.end() && each.create_index <= its->second;
  };
  for (const std::string& holder : after.record.holders) {
    const contender* const granted = before.find(holder);
    if (!granted || before.record.names(holder)) continue;
    if (takes_back && sender && maker(*granted) == name(*sender)) continue;
    const contender* const now = after.find(holder);
    if (!now || now->create_index != granted->create_index) continue;
    for (const contender& each : before.contenders) {
      if (each.create_index >= granted->create_index) break;
      const contender* const still = after.find(each.session);
      const bool waits = !before.record.names(each.session) && !after.record.names(each.session) && still &&
                         still->create_index == each.create_index && each.grantable();
      if (waits && !is_doubted(each) && !unwanted_.contains(each.session) && maker(each) != maker(*granted) &&
          (!sender || maker(each) != name(*sender)))
        object(guarantee::order, each.session + " was overtaken by " + holder);
    }
  }
}

/// True if an entry of another process stands before the first entry of this process, and belongs to a request for more
/// slots than are free. Such a request keeps the slots that it gets until it has all of them.
bool world::waits_behind_a_wide_request(const process& of, std::size_t free) const {
  for (const contender& entry : seen_.contenders) {
    const auto its = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& p) { return p->sessions.contains(entry.session); });
    if (seen_.record.names(entry.session) || its == processes_.end()) continue;
    if (its->get() == &of) return false;
    if ((*its)->alive && !(*its)->requests.empty() &&
        (*its)->requests.begin()->second.count > std::max(free, std::size_t{1}))
      return true;
  }
  return false;
}

/// Notes the provisional grants that nobody has accepted, and since when each of them has been in Consul.
void world::note_open_grants() {
  if (!options_.accepts) return;
  std::map<std::string, std::pair<std::uint64_t, time_point>> open;
  for (const contender& entry : seen_.contenders) {
    if (!protocol::is_provisional(entry.flags) || entry.accepted || !seen_.record.names(entry.session)) continue;
    const auto its = open_grants_.find(entry.session);
    const bool is_known = its != open_grants_.end() && its->second.first == entry.modify_index;
    open[entry.session] = {entry.modify_index, is_known ? its->second.second : now()};
  }
  open_grants_ = std::move(open);
}

/// The number of grants that should have been taken back by now.
std::size_t world::overdue_grants() const {
  const duration patience = protocol::acceptance_of(options_.ttl)->patience();
  return static_cast<std::size_t>(std::count_if(open_grants_.begin(), open_grants_.end(), [&](const auto& each) {
    return now() > each.second.second + patience + patience / 10;
  }));
}

/// G5: no slot stays free for long while a contender waits that could have it.
void world::check_use() {
  if (!settled() || now() >= last_call_) return;
  const std::uint32_t slots = limit();
  // If many processes write, some slot is always free. It is enough that the head of the queue changes.
  const auto head = std::find_if(seen_.contenders.begin(), seen_.contenders.end(),
                                 [this](const contender& each) { return is_waiting(seen_, each); });
  const std::string its = head == seen_.contenders.end() ? "" : head->session;
  if (std::exchange(head_, its) != its) free_since_ = never;
  // A process that has lost a session, or knows that a holder's session has ended, leaves alone the slots in which
  // somebody may still believe. These are the slots of holders that the record names without an entry, and a mutex
  // whose key has gone.
  const bool spares = now() < withheld_until_ || (!calm() && now() < bereft_until_);
  const std::size_t untaken = options_.accepts ? overdue_grants() : 0;
  const std::size_t kept = !spares          ? holders_ - untaken
                           : options_.mutex ? std::max<std::size_t>(holders_, seen_.lock_index == 0 ? 1 : 0)
                                            : seen_.record.holders.size();
  const bool idle = !seen_.record.closed && std::any_of(processes_.begin(), processes_.end(), [&](const auto& p) {
    if (!p->alive || p->requests.empty()) return false;
    const process::request& first = p->requests.begin()->second;
    return first.patient && kept + first.count <= slots && (calm() || holders_ >= slots || !anyone_is_orphaned()) &&
           !waits_behind_a_wide_request(*p, slots - kept);
  });
  if (!idle)
    free_since_ = never;
  else if (free_since_ == never)
    free_since_ = now();
  else if (now() - free_since_ > 700ms + options_.lock_delay + 30 * options_.slowest())
    object(guarantee::progress, "a slot stays free while somebody waits");
}

/// G5: all slots have come free at once. Each contender at the front of the queue is granted one soon, although one
/// write grants only a few.
void world::check_all_are_granted() {
  std::vector<contender> first;
  for (const contender& each : look().contenders)
    if (is_waiting(seen_, each) && first.size() < limit()) first.push_back(each);
  in(400ms + 30 * options_.slowest(), [this, first] {
    const snapshot& now = look();
    for (const contender& each : first)
      if (const contender* const its = now.find(each.session);
          its && its->create_index == each.create_index && is_waiting(now, *its) && !unwanted_.contains(each.session))
        object(guarantee::progress, each.session + " waits, though its slot has come free long ago");
  });
}

/// G5 and G10: every waiter has had a slot, and nothing is left in Consul.
void world::check_drained() {
  if (options_.locks != 0) check_no_lock_left();
  const snapshot& left = look();
  say([&] {
    std::string line = "left: record @" + std::to_string(left.lock_index) + " " + format(left.record) + ", entries";
    for (const contender& each : left.contenders) line += " " + each.session + "@" + std::to_string(each.modify_index);
    return line;
  });
  for (const auto& p : processes_) {
    if (p->alive) {
      if (referee_.anyone_waits(p->number))
        object(guarantee::progress, name(*p) + " has a waiter that never got a slot");
      if (referee_.holds_any(p->number)) object(guarantee::leaks, name(*p) + " has a slot that was never released");
      if (!p->releasing.empty()) object(guarantee::answers, name(*p) + " has a release that never ended");
    }
    check_left(*p, left);
  }
  for (const auto& p : retired_) check_left(*p, left);
}

void world::check_left(const process& p, const snapshot& left) {
  for (const std::string& session : p.sessions) {
    if (left.find(session) && !(p.alive && left.record.names(session)))
      object(guarantee::leaks, name(p) + " has left its entry " + session);
    if (p.alive && left.record.names(session) && consul_.has_session(session))
      object(guarantee::leaks, name(p) + " is still named in the record: " + session);
    if (p.alive && left.number_of(session)) object(guarantee::leaks, name(p) + " still has a number: " + session);
  }
}

void world::check_closed() {
  for (const auto& p : processes_) {
    if (!p->alive || p->watching) continue;
    if (!p->closed) object(guarantee::answers, name(*p) + " does not close");
    if (p->closed && p->closed->error.code) object(guarantee::leaks, name(*p) + " could not close cleanly");
    if (p->pool->status().sessions != 0) object(guarantee::leaks, name(*p) + " keeps sessions");
  }
}

namespace {

void forget_old(std::deque<time_point>& list, time_point now) {
  while (!list.empty() && list.front() < now - 1s) list.pop_front();
}

}  // namespace

/// G7: no pool sends requests in a circle. The events of the whole world bound the requests of each pool.
void world::note_request(process& p) {
  ++result_.requests;
  p.sent.push_back(now());
  forget_old(p.sent, now());
  forget_old(events_, now());
  // If nothing is shown, each slot that is asked for costs a session in each round.
  std::size_t wanted = 0;
  for (const auto& [ticket, asked] : p.requests) wanted += asked.count;
  const bool is_hidden = is_hidden_from(p);
  const std::size_t of_slots = is_hidden ? 12 * wanted : 0;
  const std::size_t alone = options_.request_bytes != 0 ? 400 : 100;  // where each has dozens of sessions
  // The pool starts new watches for each slot of a hasty user and cancels those of the slot before. A cancelled watch
  // is a request without an event.
  const std::size_t of_events = has_hasty_user(p) ? events_.size() : events_.size() / 2;
  if (p.sent.size() > alone + of_events + of_slots) object(guarantee::cost, name(p) + " sends requests in a circle");
  // The answers of the reads stay the same. So requests that follow from them become rare. Where every other read shows
  // what is there, the pauses begin anew.
  forget_old(p.wishes, now());
  const std::size_t rare = (p.by_turns ? 60 + 14 * wanted : 80 + 3 * wanted) + 5 * p.wishes.size();
  const bool is_long_hidden = now() > p.hidden_since + 3s && now() < p.hidden_until;
  if (is_long_hidden && options_.request_bytes == 0 && p.sent.size() > rare)
    object(guarantee::cost, name(p) + " sends " + std::to_string(p.sent.size()) + " requests a second for one state");
}

/// G7: while nothing happens, no process reads everything again and again.
void world::note_read(process& p) {
  p.reads.push_back(now());
  forget_old(p.reads, now());
  forget_old(news_, now());
  const bool is_calm = calm() && now() >= calm_ + 1s && options_.locks == 0;
  if (is_calm && p.reads.size() > 6 + 2 * news_.size())
    object(guarantee::cost, name(p) + " reads everything in a circle");
}

/// G7: the replies to one process do not overload the network. In a crowd that changes all the time, a process reads
/// everything after some of its own writes, and between pauses that grow with the crowd.
void world::note_answer(process& p, const core_event& answer) {
  constexpr std::size_t of_json = 150;  // bytes of an entry besides its key and its value
  std::size_t bytes = 0, entries = 0;
  const auto add = [&](const kv_entry& each) {
    bytes += each.key.size() + each.value.size() * 4 / 3 + of_json;
    ++entries;
  };
  if (const auto* const listed = std::get_if<event::prefix_listed>(&answer))
    std::for_each(listed->listing.begin(), listed->listing.end(), add);
  else if (const auto* const key = std::get_if<event::key_watched>(&answer); key && key->pair)
    add(*key->pair);
  p.answers.emplace_back(now(), bytes);
  while (p.answers.front().first < now() - 1s) p.answers.pop_front();
  forget_old(p.written, now());
  p.bytes_max = std::max(p.bytes_max, bytes);
  p.entries_max = std::max(p.entries_max, entries);
  if (p.entries_max <= 5) return;  // so few entries are watched all the time (`pool_options::watch_all_max`)
  const std::size_t between_pauses = 1s / (p.entries_max * protocol::pool_options().watch_pause_each);
  const std::size_t most = 20 + 2 * p.written.size() + between_pauses;
  const std::size_t all = std::accumulate(p.answers.begin(), p.answers.end(), std::size_t{0},
                                          [](std::size_t sum, const auto& each) { return sum + each.second; });
  if (all > most * p.bytes_max)
    object(guarantee::cost, name(p) + " is sent " + std::to_string(all) + " bytes in a second");
}

/// G7: each transaction is small enough for Consul.
void world::check_size(const std::vector<kv_operation>& operations) {
  if (operations.size() > operations_max) object(guarantee::cost, "a transaction is too long");
  if (options_.request_bytes == 0) return;
  const std::size_t bytes = consul::detail::write_txn(operations).size();
  if (bytes > options_.request_bytes) object(guarantee::cost, "a request has " + std::to_string(bytes) + " bytes");
}

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>

#include "sim/support/world_impl.hpp"

namespace holdfast::test {

const std::vector<world::accident> world::accidents{
    {&world_options::crashes, "crashes", &world::crash, false, false},
    {&world_options::pauses, "pauses", &world::pause, false, true},
    {&world_options::suspends, "suspends", nullptr, true, true},
    {&world_options::errors, "errors", &world::answer_with_errors, true, true},
    {&world_options::partitions, "partitions", &world::partition, true, true},
    {&world_options::agent_restarts, "agent restarts", &world::restart_agent, true, true},
    {&world_options::failovers, "failovers", &world::fail_over, true, true},
    {&world_options::load_changes, "load changes", &world::change_load, false, false},
    {&world_options::operators, "operators", &world::meddle, true, true},
    {&world_options::deregistrations, "deregistrations", &world::deregister, false, true},
    {&world_options::health_checks, "health checks", &world::fail_health_check, true, true},
    {&world_options::residents_die_at_once, "residents that die at once", nullptr, false, false},
    {&world_options::residents_elsewhere, "residents on another node", nullptr, false, false},
    {&world_options::hasty_user, "a hasty user", nullptr, false, false},
    {&world_options::hidden_writes, "hidden writes", &world::hide_writes, true, true},
    {&world_options::hangs, "applications that hang", &world::hang, false, true},
};

void world::again_later(void (world::*accident)()) {
  in(random_.between(100ms, 2s), [this, accident] {
    if (faults()) (this->*accident)();
  });
}

void world::mark(const std::string& words) const {
  say([&] { return words; });
  if (told_.picture) told_.picture->mark(now().time_since_epoch(), words);
}
void world::mark(const process& p, const std::string& words) const {
  say([&] { return name(p) + ": " + words; });
  if (told_.picture) told_.picture->mark(name(p), now().time_since_epoch(), words);
}
void world::shade(const process& p, duration length, const std::string& words) const {
  say([&] { return name(p) + ": " + words; });
  const auto from = now().time_since_epoch();
  if (told_.picture) told_.picture->shade(name(p), from, from + length, words);
}

/// Returns a random process, or null if that one is dead.
world::process* world::some_process() {
  process& p = *processes_[random_.below(processes_.size())];
  return p.alive ? &p : nullptr;
}

void world::crash() {
  again_later(&world::crash);
  process* const p = some_process();
  const auto alive = std::count_if(processes_.begin(), processes_.end(), [](const auto& each) { return each->alive; });
  if (!p || alive < 2 || !random_.chance(50)) return;
  mark(*p, "crashes");
  p->alive = false;
  p->inbox.clear();
  for (const auto& [slot, deadline] : std::exchange(p->leases, {})) ended(*p, slot, timeline::end::crashed);
  p->bodies.clear();
  referee_.crashed(p->number);
  tell_all_of(*p);
  if (random_.chance(50))
    in(random_.between(0s, 1s), [this, observed = p->watching != nullptr] {
      if (observed)
        start_observer();
      else
        start_process();
    });
}

void world::pause() {
  again_later(&world::pause);
  process* const p = some_process();
  if (!p || p->paused || p->deaf) return;
  pause(*p, random_.between(0s, 3 * options_.ttl));
}

void world::pause(process& p, duration length) {
  length = std::min(length, faults_end_ - now());
  p.ran_for = now() - p.runs_since;
  const bool is_suspended = options_.suspends && !p.watching && random_.chance(40);
  shade(p, length, is_suspended ? "is suspended, with its machine" : "is paused");
  p.paused = true;
  if (sabotage_.which() == seeded_bug::paused_taken_for_gone) tell_all_of(p);
  if (!is_suspended && random_.chance(30)) p.read_at = p.clock.local(now());
  const duration timer = p.tick_at == never ? 1h : p.tick_at - now();
  in(length, [this, &p, length, is_suspended, timer] {
    if (!p.alive) return;
    say([&] { return name(p) + ": goes on"; });
    p.runs_since = now();
    if (sabotage_.which() == seeded_bug::clock_stops_in_pauses) {
      p.clock.set_back(length);
      for (const auto& [slot, deadline] : p.leases) referee_.updated(p.number, slot, truly(p, deadline));
    }
    p.paused = false;
    p.tick_at = never;
    if (is_suspended) return wake_up(p, timer);
    // The events of the meantime arrive in some order. The clock ticks before them, or only after them.
    if (random_.chance(50)) step(p, event::tick{});
    hear(p);
    step(p, event::tick{});
  });
}

void world::hear(process& p) {
  while (!p.inbox.empty() && p.alive) {
    const job next = std::move(p.inbox.front());
    p.inbox.pop_front();
    next();
  }
}

/// A suspended machine wakes up: its clock has gone on, but its timers and those of its users have not. While the
/// process holds anything, the shell sleeps for at most a second, where a lease lasts 15 seconds. Messages that
/// were sent meanwhile arrive when the network has repeated them.
void world::wake_up(process& p, duration timer) {
  const duration slice = options_.ttl / 15;
  const bool looks_often = !p.leases.empty() && sabotage_.which() != seeded_bug::timers_stop_in_suspends;
  const duration left = looks_often ? random_.between(0s, std::min(timer, slice)) : timer;
  p.tick_at = now() + left;
  in(left, [this, &p, due = p.tick_at] {
    if (!p.alive || p.paused || p.tick_at != due) return;
    p.tick_at = never;
    step(p, event::tick{});
  });
  p.deaf = true;
  in(std::min<duration>(random_.between(0s, options_.ttl / 2), faults_end_ - now()), [this, &p] {
    p.deaf = false;
    hear(p);
  });
}

/// Nothing arrives in either direction. The process learns only afterwards that the connections of its watches are
/// dead.
void world::partition() {
  again_later(&world::partition);
  process* const p = some_process();
  if (!p || now() < p->cut_off_until) return;
  const duration length = std::min<duration>(random_.between(0s, 2 * options_.ttl), faults_end_ - now());
  shade(*p, length, "is cut off");
  p->cut_off_until = now() + length;
  in(length, [this, p] { fail_watches(p, 1s); });
}

void world::restart_agent() {
  again_later(&world::restart_agent);
  process* const p = some_process();
  if (!p) return;
  const duration length = random_.between(10ms, 500ms);
  shade(*p, length, "has no agent");
  p->refused_until = now() + length;
  fail_watches(p, 5ms);
}

void world::fail_over() {
  again_later(&world::fail_over);
  if (now() < no_leader_until_) return;
  const duration length = random_.between(50ms, 1s);
  mark("Consul has no leader");
  no_leader_until_ = now() + length;
  fail_watches(nullptr, 20ms);
  in(length, [this] {
    mark("Consul has a new leader");
    denies_until_ = now() + 1s;
    for (auto& [id, its] : leases_) its.ends = now() + its.life;
    consul_.store.restart_ttls(testing::store::time_point(now().time_since_epoch()));
  });
}

void world::change_load() {
  again_later(&world::change_load);
  process* const p = some_process();
  if (!p) return;
  const int before = p->users;
  p->users = static_cast<int>(random_.below(2 * static_cast<std::uint64_t>(options_.users) + 1));
  say([&] { return name(*p) + ": has " + std::to_string(p->users) + " users"; });
  for (int user = before; user < p->users; ++user) again(*p, user);
}

/// Reads show a process what was there at the beginning, or nothing, and say that it is the present state. A proxy
/// keeps replies, or Consul changes the names of keys in URLs, as 1.12.0 does to a '%'. Writes are carried out, and
/// what a transaction reads is true.
void world::hang() {
  again_later(&world::hang);
  process* const p = some_process();
  if (!p || p->watching || now() < p->hangs_until) return;
  const duration length = std::min<duration>(random_.between(0s, 3 * options_.ttl), faults_end_ - now());
  shade(*p, length, "does not say that it is alive");
  p->hangs_until = now() + length;
}

/// The question waits until the application runs again.
void world::perform(process& p, action::ask_alive&) {
  say([&] { return name(p) + ": is asked whether it is alive"; });
  p.asked_at = now();
  const time_point answers_at = std::max(p.hangs_until, now()) + random_.between(0ms, 2ms);
  in(answers_at - now(), [this, &p] {
    const auto answer = [this, &p] {
      p.asked_at = never;
      say([&] { return name(p) + ": says that it is alive"; });
      if (p.alive && p.pool) step(p, event::alive{true});
    };
    if (p.paused)
      p.inbox.emplace_back(answer);
    else
      answer();
  });
}

void world::hide_writes() {
  again_later(&world::hide_writes);
  process* const p = some_process();
  if (!p || p->watching || now() < p->hidden_until) return;
  const duration rest = faults_end_ - now();
  const duration length = random_.chance(30) ? rest : std::min<duration>(random_.between(0s, 2 * options_.ttl), rest);
  shade(*p, length, "is not shown what was written");
  p->hidden_since = now();
  p->hidden_until = now() + length;
  p->shown.clear();
  if (random_.chance(50)) p->shown = consul_.list(world_prefix);
  // Or every other read is answered by another Consul, which has a lock key of its own.
  p->by_turns = random_.chance(30);
  if (p->by_turns) {
    kv_entry other;
    other.key = world_lock_key;
    other.flags = mutex_flags;
    if (!options_.mutex) {
      lock_record record;
      record.limit = options_.limit;
      other.value = format(record);
      other.flags = semaphore_flags;
    }
    other.create_index = other.modify_index = 1'000'000'007;
    p->shown = {std::move(other)};
  }
  in(length, [this, p] { fail_watches(p, 20ms); });
}

/// Consul ends all sessions at once, and notifies nobody. Holders believe in their slots until their leases are over. A
/// process that has seen such a holder must not grant its slot to anybody before that. A process that has never seen
/// it, and has lost no session of its own, cannot know of it. `forgotten_` says for how long that is excused.
void world::deregister() {
  again_later(&world::deregister);
  mark("an operator deregisters the node");
  std::set<int> bereaved;
  for (const auto& p : processes_)
    if (std::any_of(p->sessions.begin(), p->sessions.end(),
                    [&](const auto& s) { return consul_.has_session(s) && !unwanted_.contains(s); }))
      bereaved.insert(p->number);
  // A process that is cut off learns of the ended sessions when the faults end, at the latest. It leaves their slots
  // alone for one TTL from then on. So no slot is expected to come free before that.
  bereft_until_ = faults_end_ + options_.ttl + options_.ttl / 4;
  const lock_record& record = look().record;
  for (const auto& p : processes_)
    for (const std::string& session : p->sessions)
      if (consul_.has_session(session) && (record.names(session) || believes_by(*p, session)))
        forgotten_[session] = {now() + options_.ttl + options_.ttl / 10, bereaved};
  consul_.deregister_node(default_session_node, now());
}

std::string world::node_of(const process& p) const {
  return options_.health_checks ? "agent-" + std::to_string(p.number) : std::string(default_session_node);
}

/// The sessions of one process end at once, and the process does not know it. Consul keeps what they had locked from
/// everybody for as long as the process may believe in it. If a record names the holders, each process that grants
/// keeps the slots from others, newcomers included.
void world::fail_health_check() {
  again_later(&world::fail_health_check);
  process& p = *processes_[random_.below(processes_.size())];
  mark(p, "the health check of its node fails");
  for (const std::string& session : p.sessions)
    if (consul_.has_session(session)) forgotten_[session].until = now() + options_.ttl + options_.ttl / 10;
  p.ill_until = now() + random_.between(0s, options_.ttl / 2);
  consul_.deregister_node(node_of(p), now());
}

/// Notes the holders that a process is shown. It cannot rely on an answer that is older than what it has seen, so such
/// an answer does not count.
void world::note_holders_seen(process& p, const core_event& e) {
  const auto learn = [&p](std::uint64_t index) {
    return index >= std::exchange(p.index_seen, std::max(index, p.index_seen));
  };
  if (const auto* const one = std::get_if<event::key_watched>(&e); one && one->pair) learn(one->pair->modify_index);
  if (const auto* const txn = std::get_if<event::txn_done>(&e))
    for (const kv_entry& each : txn->results) learn(each.modify_index);
  const auto* const listed = std::get_if<event::prefix_listed>(&e);
  if (!listed || listed->error.code || !learn(listed->index)) return;
  const auto shown = make_snapshot(options_.mutex ? world_mutex_entries : world_prefix, world_lock_key, listed->listing,
                                   listed->index, options_.mutex ? record_form::session : record_form::map);
  if (!shown) return;
  std::erase_if(p.holders_seen, [this](const std::string& session) { return !forgotten_.contains(session); });
  for (const std::string& holder : shown->record.holders)
    if (shown->find(holder)) p.holders_seen.insert(holder);
}

bool world::believes_by(const process& p, const std::string& session) {
  return std::any_of(p.leases.begin(), p.leases.end(), [&](const auto& held) {
    const auto by = p.held_by.find(held.first);
    return by != p.held_by.end() && std::find(by->second.begin(), by->second.end(), session) != by->second.end();
  });
}

/// Excuses a grant by a process that cannot know that a holder still believes in the slot. It cannot know if it has
/// never seen the holder whose session ended with its node, and has lost no session of its own with that node.
void world::excuse_newcomer(const process* sender, const snapshot& before) {
  std::erase_if(forgotten_, [this](const auto& each) { return each.second.until <= now(); });
  if (forgotten_.empty()) return;
  const snapshot& after = look();
  for (auto& [session, its] : forgotten_)  // an operator that sweeps does not wait
    if (!sender && before.record.names(session) && !after.record.names(session)) its.excused = true;
  if (options_.health_checks) return;  // a process that grants waits for the lock delay
  const bool grants = std::any_of(after.record.holders.begin(), after.record.holders.end(),
                                  [&](const std::string& holder) { return !before.record.names(holder); });
  if (!grants) return;
  for (auto& [session, its] : forgotten_)
    if (!sender || (!its.bereaved.contains(sender->number) && !sender->holders_seen.contains(session)))
      its.excused = true;
}

void world::meddle() {
  again_later(&world::meddle);
  if (!meddle_once()) return;
  // A holder that is cut off as well cannot be notified. It believes until its lease ends.
  referee_.excuse_until(now() + options_.ttl + 2s);
  // A fence check knows only the entry. If the operator leaves the entry and changes the record, the check still
  // succeeds.
  for (const auto& p : processes_) p->guards.clear();
}

/// Notes that an operator has ended this session or deleted its entry. Its holder believes in the slot until it is
/// notified, and nobody else can know of that. Returns false if the session belongs to no process, or if several
/// holders may believe by it.
bool world::excuse_holder_of(const std::string& session) {
  const auto is_its = [&](const auto& p) { return p->sessions.contains(session); };
  if (options_.locks != 0 || std::none_of(processes_.begin(), processes_.end(), is_its)) return false;
  forgotten_[session] = {now() + options_.ttl + options_.ttl / 10, {}, true};
  return true;
}

/// Lets an operator or Consul do one thing. Returns true if that may have taken slots away, and nobody can tell whose.
bool world::meddle_once() {
  const auto listing = consul_.list(world_prefix);
  if (listing.empty()) return false;
  const kv_entry& victim = listing[random_.below(listing.size())];
  // Observers must cope with an index that falls. So Consul loses or restores its state more often in elections.
  const bool falls = options_.election && random_.chance(40);
  switch (falls ? 6 + random_.below(2) : random_.below(8)) {
    case 0:
      mark("an operator destroys " + victim.session);
      consul_.destroy_session(victim.session, now());
      return !excuse_holder_of(victim.session);
    case 1:
      mark("an operator deletes " + victim.key);
      if (victim.key != world_lock_key) {
        consul_.remove(victim.key, now());
        return !excuse_holder_of(victim.session);
      }
      referee_.forget_tokens();
      consul_.remove(victim.key, now());
      return true;
    case 2:
      mark("an operator deletes the prefix");
      referee_.forget_tokens();
      consul_.remove_tree(std::string(options_.mutex       ? world_lock_key
                                      : random_.chance(50) ? world_prefix
                                                           : world_prefix.substr(0, world_prefix.size() - 1)),
                          now());
      return true;
    case 3:
      if (const auto lock = consul_.get(world_lock_key); lock && !options_.mutex) {
        mark("an operator empties the record");
        auto record = parse_lock_record(lock->value);
        record->holders.clear();
        consul_.put(std::string(world_lock_key), format(*record), lock->flags, now());
      }
      return true;
    case 4:
      consul_.store.collect_tombstones();
      return false;
    case 5:
      image_ = consul_.store;
      return false;
    case 6:
      mark("Consul's only server loses its state");
      fail_watches(nullptr, 20ms);
      consul_.lose_state();
      leases_.clear();
      let_index_fall();
      forget_history();
      return true;
    default:
      if (!image_) return false;
      mark("an operator restores a snapshot of Consul");
      consul_.store.restore(*image_);
      consul_.store.restart_ttls(testing::store::time_point(now().time_since_epoch()));
      let_index_fall();
      if (const auto key = consul_.get(world_lock_key)) in_office_ = key->session;
      key_restored_ = true;
      while (!watches_.empty()) answer_watch(watches_.size() - 1);  // at any index, as Consul was seen to do
      forget_history();
      return true;
  }
}

/// Consul gives out the same indexes again. A write from before may fit one of the new indexes, as long as such a write
/// is pending.
void world::forget_history() {
  for (const auto& p : processes_) p->proofs.clear();  // what they have freed may be there again
  seen_at_ = 0;
  referee_.forget_tokens();
  strays_until_ = now() + 3 * options_.ttl;
}

}  // namespace holdfast::test

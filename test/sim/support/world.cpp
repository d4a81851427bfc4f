// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/world.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "sim/support/world_impl.hpp"

namespace holdfast::test {

void world_result::add(const world_result& other) {
  violation = other.violation;
  broken = other.broken;
  steps += other.steps;
  events += other.events;
  requests += other.requests;
  grants += other.grants;
  losses += other.losses;
  faults += other.faults;
  proclaims += other.proclaims;
  news += other.news;
  trace = (digest() << trace << other.trace).value();
}

world::world(world_options options, seeded_bug bug, const chronicle& told)
    : options_(options),
      sabotage_(bug),
      told_(told),
      random_(options.seed),
      referee_(most_slots(), std::max<std::size_t>(1, options_.locks)),
      faults_end_(time_point{} + options_.faults_last),
      calm_(faults_end_ + 2 * options_.ttl + 1s),
      settled_(keeps_slots_of_the_lost() ? calm_ : faults_end_ + 1s),
      last_call_(calm_ + options_.calm_lasts),
      drained_(last_call_ + 9s + options_.hold_max) {
  sabotage_.bend(consul_.store);
  say([&] {
    std::string line = "limit " + std::to_string(options_.limit) + ", processes " + std::to_string(options_.processes) +
                       ", users " + std::to_string(options_.users) + ", faults " +
                       std::to_string(options_.request_faults) + "%, go " + std::to_string(options_.go_contenders);
    const std::pair<bool, const char*> with[] = {
        {options_.mutex && options_.locks == 0, options_.election ? "an election" : "a mutex"},
        {options_.locks != 0, "a mutex set"},
        {options_.long_break, "a long break"},
        {options_.one_by_one, "releases one by one"},
        {options_.request_bytes == request_bytes_max, "dozens who wait"},
        {options_.request_bytes != 0 && options_.request_bytes != request_bytes_max, "small requests"},
        {options_.clock_ppm != 0, "bad clocks"},
        {options_.administrators != 0, "administrators"}};
    for (const auto& [on, words] : with)
      if (on) line += std::string(", ") + words;
    for (const accident& each : accidents)
      if (options_.*each.in) line += std::string(", ") + each.words;
    return line;
  });
}

/// The residents hold all slots at first. Either all of them die at once, or one of them dies now and then and a new
/// resident takes its slot.
void world::settle_residents() {
  lock_record record{record_form::map, options_.limit, {}};
  for (std::uint32_t i = 0; i != options_.residents; ++i) {
    residents_.push_back(add_resident());
    record.add(residents_.back());
  }
  consul_.put(std::string(world_lock_key), format(record), semaphore_flags, now());
  if (!options_.residents_die_at_once) {
    in(random_.between(100ms, 1s), [this] { end_a_resident(); });
    return in(50ms, [this] { replace_residents(); });
  }
  const duration join_time = 250ms;  // all users are in the queue after that
  in(join_time, [this] {
    for (const std::string& each : residents_) consul_.destroy_session(each, now());
    check_all_are_granted();
  });
}

std::string world::add_resident() {
  const std::string node = options_.residents_elsewhere ? "residents" : std::string(default_session_node);
  consul_.register_node(node, now());
  const std::string id = consul_.create_session(24h, now(), 0s, node);
  const entry_lease lease{10s, 1s, node};
  const std::string words = options_.residents_elsewhere ? with_stamp("resident", 1h, lease) : "resident";
  consul_.transact({{kv_verb::lock, std::string(world_prefix) + id, words, contender_magic, 0, id}}, now());
  return id;
}

void world::end_a_resident() {
  if (residents_.empty()) return;
  const auto one = residents_.begin() + static_cast<std::ptrdiff_t>(random_.below(residents_.size()));
  say([&] { return "resident " + *one + " dies"; });
  consul_.destroy_session(*one, now());
  residents_.erase(one);
  in(random_.between(100ms, 1s), [this] { end_a_resident(); });
}

/// A new resident takes each free slot that no contender waits for. So a process that asks for a slot finds all slots
/// in use.
void world::replace_residents() {
  if (now() >= last_call_) return;
  const auto waits = [this](const contender& each) { return is_waiting(seen_, each); };
  const snapshot& seen = look();
  if (seen.record.holders.size() < seen.record.limit &&
      std::none_of(seen.contenders.begin(), seen.contenders.end(), waits)) {
    lock_record record = seen.record;
    residents_.push_back(add_resident());
    record.add(residents_.back());
    consul_.put(std::string(world_lock_key), format(record), semaphore_flags, now());
  }
  in(50ms, [this] { replace_residents(); });
}

world_result world::run() {
  if (options_.residents != 0) settle_residents();
  // Other applications write, too. So an index that falls stays below its earlier value.
  for (int i = 0; options_.election && options_.operators && i != 1'000; ++i)
    consul_.put("elsewhere", std::to_string(i), 0, now());
  for (int i = 0; i < options_.processes; ++i) start_process();
  if (options_.locks != 0 && !options_.operators) check_forsaken();
  for (int i = 0; i < options_.observers; ++i) start_observer();
  for (int i = 0; i < options_.go_contenders; ++i) start_stranger(i);
  for (const accident& each : accidents)
    if (options_.*each.in && each.happens) again_later(each.happens);
  for (int i = 0; i < options_.administrators; ++i) in(random_.between(0s, 1s), [this, i] { administrate(i); });

  run_until(faults_end_);
  say([] { return "-- faults end"; });
  run_until(calm_);
  say([] { return "-- calm"; });
  run_until(last_call_);
  say([] { return "-- nobody asks for more"; });
  if (options_.administrators != 0) restore_order();
  for (auto& p : processes_)
    if (random_.chance(30) && !p->closing) close(*p);
  time_point end = drained_;
  run_until(end);
  // If many contenders wait for one slot, and some hold it for long, the run takes more time. It goes on as long as
  // slots are granted.
  for (std::uint64_t before = 0; somebody_is_busy() && result_.grants != before;) {
    before = result_.grants;
    run_until(end += options_.hold_max + 1s);
  }
  run_until(end += options_.slot_idle_timeout + 1s);  // the last slot may have been released a moment ago
  if (referee_.violation().empty()) check_drained();
  if (referee_.violation().empty()) {
    for (auto& p : processes_)
      if (!p->closing) close(*p);
    run_until(end + 1s);
    check_closed();
  }
  result_.trace = trace_.value();
  result_.violation = referee_.violation();
  result_.broken = referee_.broken();
  if (!result_.violation.empty()) {
    result_.violation += ", at " + std::to_string(now().time_since_epoch() / 1us) + " us";
    mark(result_.violation);
  }
  return result_;
}

bool world::somebody_is_busy() const {
  return std::any_of(processes_.begin(), processes_.end(), [this](const auto& p) {
    return p->alive && (referee_.anyone_waits(p->number) || !p->leases.empty() || !p->releasing.empty());
  });
}

void world::run_until(time_point end) {
  for (bool more = true; more && referee_.violation().empty();) {
    more = time_.run_one(end);
    ++result_.steps;
    end_sessions();
    answer_watches();
    check_all();
  }
}

void world::start_process() {
  auto p = std::make_unique<process>();
  p->number = ++last_process_;
  p->users = options_.users;
  const auto ppm = static_cast<std::int64_t>(options_.clock_ppm);
  if (ppm != 0) p->clock = skewed_clock(random_.between(0s, 1h), random_.chance(50) ? ppm : -ppm);
  pool_options o;
  o.prefix = options_.mutex ? world_lock_key : world_prefix;
  o.form = options_.mutex ? record_form::session : record_form::map;
  o.lock_key = world_lock_key;
  o.description = name(*p);
  if (options_.deregistrations || options_.health_checks || options_.accepts) o.wall_offset = 1h;
  o.accepts = options_.accepts && !random_.chance(20);  // the other processes use an older version
  if (options_.health_checks) {
    o.node.clear();
    if (!options_.mutex) o.lock_delay = options_.lock_delay;  // Consul itself enforces the lock delay of a mutex
  }
  o.limit = options_.limit;
  o.use_recorded_limit = options_.administrators != 0;
  o.ttl = options_.ttl;
  o.lease_margin = options_.ttl / 10;
  o.local_handoff_time = options_.local_handoff_time;
  o.slot_idle_timeout = options_.slot_idle_timeout;
  o.outage_grace = options_.request_faults != 0 && random_.chance(50) ? options_.ttl : 0s;
  o.give_up_after = give_up_after();
  o.alive_within = options_.alive_within;
  o.claim_timeout = 100ms;
  o.session_idle_timeout = options_.session_idle_timeout;
  o.watch_wait = options_.watch_wait;
  o.numbered = options_.numbered;
  if (options_.request_bytes != 0) o.request_bytes = options_.request_bytes;
  o.watch_all_max = options_.watch_all_max;
  o.own_watch = options_.own_watch;
  o.own_entry_delay = 500ms;
  o.rejoin_window = options_.rejoin_window;
  sabotage_.bend(o, timeout_);
  p->proclaimed = o.description;
  p->has_run_directory = options_.run_directory && p->number % 5 != 4;
  if (p->has_run_directory) o.watch_makers = 1s;
  p->may_read_nodes = p->number % 3 >= options_.without_node_rule;
  if (options_.locks != 0)
    p->pool = make_set(o);
  else
    p->pool = std::make_unique<protocol::pool>(o, random_.below(1u << 30));
  for (int user = 0; user < p->users; ++user) again(*p, user);
  processes_.push_back(std::move(p));
}

void world::when_running(process& p, job what) {
  if (!p.alive) return;
  if (p.paused || p.deaf) return p.inbox.push_back(std::move(what));
  what();
}

void world::deliver(process& p, core_event e) {
  if (!p.alive) return;
  if (!p.paused && !p.deaf) return step(p, std::move(e));
  p.inbox.push_back([this, &p, e = std::move(e)]() mutable { step(p, std::move(e)); });
}

void world::step(process& p, core_event e) {
  if (p.watching) return step_of_an_observer(p, std::move(e));
  ++result_.events;
  if (options_.deregistrations) note_holders_seen(p, e);
  // A request for many slots also asks for as many sessions.
  const auto* const wish = std::get_if<event::acquire>(&e);
  if (wish || std::holds_alternative<event::release>(e) || std::holds_alternative<event::cancel>(e))
    p.wishes.insert(p.wishes.end(), wish ? wish->terms.count : 1, now());
  // A proclaim makes the pool send no requests.
  if (!std::holds_alternative<event::tick>(e) && !std::holds_alternative<event::value_written>(e))
    events_.insert(events_.end(), wish ? wish->terms.count : 1, now());
  const time_point at = p.read_at ? *std::exchange(p.read_at, {}) : p.clock.local(now());
  core_actions out;
  std::vector<core_event> then;
  const bool heard = sabotage_.step(p.number, *p.pool, std::move(e), at, out, then);
  for (const core_action& a : out) trace_ << p.number << a;
  for (core_action& a : out) std::visit([&](auto& concrete) { perform(p, concrete); }, a);
  for (core_event& next : then) in(0s, [this, &p, e = std::move(next)] { deliver(p, e); });
  if (!heard) return;
  if (p.pool->wake() <= at) object(guarantee::cost, "the pool asks to be woken in the past");
  // A session that ends before a read shows its entry looks like one of them.
  const bool ends_sessions = options_.deregistrations || options_.operators || options_.health_checks;
  const unsigned by_chance = ends_sessions ? 9 : 3;
  if (!options_.hidden_writes && p.pool->status().trust.contradictions > by_chance)
    object(guarantee::cost, name(p) + " takes answers for contradictions that are true");
  tick_when_due(p);
}

void world::tick_when_due(process& p) {
  const time_point due = std::max(p.clock.truly(p.pool->wake()), now());
  if (due >= p.tick_at) return;
  p.tick_at = due;
  in(due - now(), [this, &p, due] {
    if (!p.alive || p.paused || p.tick_at != due) return;
    p.tick_at = never;
    step(p, event::tick{});
  });
}

void world::tell(std::string line) const {
  for (std::size_t at; (at = line.find(core_consul::session_tail)) != std::string::npos;)
    line.erase(at, core_consul::session_tail.size());
  *told_.story << now().time_since_epoch() / 1us << " us  " << line << "\n";
}

world_result run_world(world_options options, seeded_bug bug, const chronicle& told) {
  return world(options, bug, told).run();
}

}  // namespace holdfast::test

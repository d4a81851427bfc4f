// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/broker_world.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "sim/support/dice.hpp"
#include "sim/support/digest.hpp"
#include "sim/support/virtual_time.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

broker_world_options broker_world_options::of(std::uint64_t seed) {
  dice draw(seed ^ 0xb40c);
  broker_world_options o;
  o.seed = seed;
  o.processes = 2 + static_cast<int>(draw.below(3));
  o.slots = 1 + static_cast<std::uint32_t>(draw.below(3));
  o.users = 1 + static_cast<int>(draw.below(3));
  o.peers = draw.chance(40) ? 1 + static_cast<int>(draw.below(2)) : 0;
  o.harsh = draw.chance(75);
  o.operators = o.harsh && draw.chance(50);
  o.alarms = draw.chance(30);
  o.hangs = dice(seed * 47).chance(20);
  return o;
}

void broker_world_result::add(const broker_world_result& other) {
  steps += other.steps;
  requests += other.requests;
  grants += other.grants;
  handoffs += other.handoffs;
  losses += other.losses;
  faults += other.faults;
  trace = trace * 31 + other.trace;
  if (violation.empty()) violation = other.violation, broken = other.broken;
}

namespace {

constexpr duration lease_time = 2s;
constexpr duration heartbeat = 1s;
constexpr duration faulty_time = 40s;
constexpr duration calm_time = 30s;
constexpr duration served_within = 16s;

class broker_run {
public:
  broker_run(const broker_world_options& options, broker_bug bug, std::ostream* story)
      : options_(options), bug_(bug), story_(story), dice_(options.seed), hanging_(options.seed * 53) {
    queues_.slots.resize(options.slots);
    for (auto& each : queues_.slots) each = {true, 0, dice_.chance(50)};
    processes_.resize(static_cast<std::size_t>(options.processes));
    for (std::size_t i = 0; i != processes_.size(); ++i) {
      processes_[i].number = static_cast<int>(i);
      boot(processes_[i]);
    }
    for (int i = 0; i != options.peers; ++i) peer_rests(i);
    plan_fault();
    if (options_.hangs) plan_hang();
  }

  broker_world_result run() {
    run_until(time_point(faulty_time));
    calm_ = true;
    if (alarm_) end_alarm();
    for (auto& s : queues_.slots) s.exists = true;
    run_until(time_point(faulty_time + calm_time));
    for (process& p : processes_) check_progress(p);
    ending_ = true;
    for (process& p : processes_)
      if (p.alive) deliver(p, event::close{});
    run_until(time_point(faulty_time + calm_time + 10s));
    for (process& p : processes_) check_end(p);
    result_.trace = trace_.value();
    return result_;
  }

private:
  struct hold {
    std::uint32_t number = 0;
    seat_id seat{};
    int connection = 0;
    time_point deadline{};  ///< true time
    bool lost = false;
    bool was_dropped = false;  ///< B went without the owner's deed
    bool excused = false;
  };
  struct process {
    int number = 0;
    std::optional<broker_pool> pool{};
    skewed_clock clock{};
    bool alive = false;
    bool frozen = false;
    bool is_cut = false;
    bool closed = false;
    std::uint64_t life = 0;
    time_point armed = never;
    std::deque<broker_event> inbox{};
    std::uint64_t last_ticket = 0;
    std::map<ticket, time_point> waiting{};
    std::map<slot_id, hold> holds{};
    std::set<slot_id> releasing{};
    // the link
    std::map<seat_id, int> seats{};
    std::vector<int> warm{};
    std::set<seat_id> revoked{};
    std::set<std::uint32_t> tokens_kept{};  // by a seeded bug
    std::set<seat_id> tokens_due{};         // the same
    bool listening = false;
    bool told_of_alarm = false;
    std::optional<event::hinted> hint{};
    time_point probe_hears{};
    std::uint64_t requests = 0, acquires = 0, hints_heard = 0;
    time_point born{};
    time_point hangs_until{};
    time_point asked_at = never;  ///< when its application was asked, until that answers
    time_point runs_since{};
  };
  struct connection {
    int process = -1;
    std::uint64_t life = 0;
    bool open_here = true;
    bool open_there = true;
    bool is_cut = false;
    bool hangs = false;
    bool running = false;
    time_point sends_at{}, hears_at{};
    std::deque<broker_write> inbox{};
  };

  // --- time and judgement

  time_point now() const { return times_.now(); }
  void run_until(time_point end) {
    while (!result_.broken && times_.run_one(end)) {
      ++result_.steps;
      check_believers();
    }
  }
  template <class... Words>
  void tell(const Words&... words) {
    if (!story_) return;
    *story_ << std::chrono::duration_cast<std::chrono::microseconds>(now().time_since_epoch()).count() << " us: ";
    (*story_ << ... << words) << '\n';
  }
  void object(promise broken, const std::string& what) {
    if (result_.broken) return;
    result_.broken = broken;
    result_.violation = "R" + std::to_string(static_cast<int>(broken)) + " " + what + ", at " +
                        std::to_string(now().time_since_epoch().count() / 1000) + " us";
    tell(result_.violation);
  }
  static std::string name(const process& p) { return "process " + std::to_string(p.number); }
  bool believes(const hold& h) const { return !h.lost && now() < h.deadline; }
  void check_believers() {
    for (std::uint32_t k = 1; k <= options_.slots; ++k) {
      int ours = 0;
      for (const process& p : processes_)
        for (const auto& [id, h] : p.holds) ours += h.number == k && believes(h);
      if (ours > 1) object(promise::exclusion, std::to_string(ours) + " believe in slot " + std::to_string(k));
      if (options_.harsh || ours == 0) continue;
      for (const auto& [peer, number] : peers_)
        if (number == k) object(promise::peers, "a peer has slot " + std::to_string(k) + ", too");
    }
  }
  void check_progress(const process& p) {
    for (const auto& [t, since] : p.waiting)
      if (since < now() - served_within) object(promise::progress, name(p) + " waits for too long");
  }
  void check_end(const process& p) {
    if (!p.alive) return;
    if (!p.closed) object(promise::answers, name(p) + " does not close");
    if (!p.waiting.empty() || !p.releasing.empty()) object(promise::answers, name(p) + " has not answered");
    if (!p.seats.empty()) object(promise::leaks, name(p) + " keeps a seat");
    if (p.listening || p.hint) object(promise::leaks, name(p) + " keeps a consumer");
    for (const auto& each : queues_.slots)
      if (each.owner != 0 && connections_.contains(each.owner)) object(promise::leaks, "a B is left");
  }
  void check_cost(process& p) {
    const auto lived = now() - p.born;
    const auto leases = static_cast<std::uint64_t>(lived / lease_time) + 1;
    const auto polls = static_cast<std::uint64_t>(lived / 500ms) + 1;
    const std::uint64_t most =
        30 + 6 * p.acquires + 3 * p.hints_heard + 4 * leases * options_.slots + 3 * polls + 6 * result_.faults;
    if (p.requests > most) object(promise::cost, name(p) + " makes too many requests: " + std::to_string(p.requests));
  }

  // --- processes

  void boot(process& p) {
    const int number = p.number;
    const std::uint64_t life = p.life + 1, last = p.last_ticket;
    p = process();
    p.number = number;
    p.life = life;
    p.last_ticket = last;
    p.alive = true;
    p.born = now();
    p.clock = skewed_clock(dice_.between(0s, 100s), static_cast<std::int64_t>(dice_.below(40'000)) - 20'000);
    broker_options o;
    o.name = "world";
    o.lease = lease_time;
    o.lease_margin = lease_time / 10;
    o.give_up_after = 1500ms;
    if (options_.hangs) o.alive_within = lease_time / 2;
    bend(o, bug_);
    p.pool.emplace(o, dice_.below(1'000'000));
    for (int i = 0; i != options_.users; ++i) user_rests(p);
  }
  /// Runs a job of this process, unless it has died meanwhile.
  template <class Job>
  void later(process& p, duration delay, Job job) {
    times_.in(delay, [&p, life = p.life, job] {
      if (p.life == life && p.alive) job();
    });
  }
  void deliver(process& p, broker_event e) {
    if (!p.alive) return;
    if (p.frozen) return p.inbox.push_back(std::move(e));
    step(p, std::move(e));
  }
  void step(process& p, broker_event&& e) {
    bend_event(p, e);
    if (const auto* const end = std::get_if<event::release>(&e)) p.holds.erase(end->slot);
    broker_actions out;
    p.pool->step(std::move(e), p.clock.local(now()), out);
    for (broker_action& each : out) {
      trace_ << each.index();
      std::visit([&](auto& a) { perform(p, a); }, each);
    }
    const time_point wake = p.pool->wake();
    if (wake == p.armed || wake == never) return;
    p.armed = wake;
    later(p, std::max<duration>(p.clock.truly(wake) - now(), 0ns), [this, &p, wake] {
      if (p.armed != wake) return;
      p.armed = never;
      deliver(p, event::tick{});
    });
  }
  void bend_event(process& p, broker_event& e) {
    if (auto* const seized = std::get_if<event::seized>(&e); seized && bug_ == broker_bug::no_wait)
      if (seized->outcome == event::seizure::ok) seized->token = true;
    if (auto* const seized = std::get_if<event::seized>(&e); seized && bug_ == broker_bug::token_got_before_b)
      bend_token(p, *seized);
    if (auto* const done = std::get_if<event::vacated>(&e); done && p.tokens_due.erase(done->seat) != 0)
      times_.in(latency(), [this, k = number_of(done->seat)] { queues_.of(k).token = true; });
    if (auto* const seen = std::get_if<event::verified>(&e); seen && bug_ == broker_bug::handoff_after_revoked)
      if (!std::exchange(seen->exists, true)) p.revoked.insert(seen->seat);
  }
  /// The process keeps a token that it has got though it did not get B, and uses it when it gets B.
  void bend_token(process& p, event::seized& e) {
    std::set<std::uint32_t>& kept = p.tokens_kept;
    if (e.token) kept.insert(number_of(e.seat));
    if (e.outcome == event::seizure::ok) e.token = kept.erase(number_of(e.seat)) != 0;
  }

  // --- users

  void user_rests(process& p) {
    const duration rest = dice_.chance(50) ? dice_.between(0s, 5ms) : dice_.between(0s, 500ms);
    later(p, rest, [this, &p] {
      if (!ending_) user_asks(p);
    });
  }
  void user_asks(process& p) {
    event::acquire e{ticket{++p.last_ticket}};
    const auto kind = dice_.below(10);
    e.terms.once = kind < 2;
    if (kind == 2 || kind == 3) e.terms.deadline = p.clock.local(now() + dice_.between(1ms, 3s));
    p.waiting[e.ticket] = now();
    ++p.acquires;
    if (kind == 4)
      later(p, dice_.between(0s, 1s), [this, &p, t = e.ticket] {
        if (p.waiting.contains(t)) deliver(p, event::cancel{t});
      });
    deliver(p, e);
  }
  duration hold_time() {
    if (calm_) return dice_.between(0s, lease_time / 10);
    const auto kind = dice_.below(100);
    if (kind < 55) return dice_.between(0s, 20ms);
    if (kind < 85) return dice_.between(0s, lease_time / 2);
    return dice_.between(0s, 2 * lease_time);
  }
  void release_after(process& p, slot_id id, duration delay) {
    later(p, delay, [this, &p, id] {
      const auto at = p.holds.find(id);
      if (at == p.holds.end() || p.releasing.contains(id)) return;
      if (!at->second.lost) p.releasing.insert(id);
      deliver(p, event::release{id});
      user_rests(p);
    });
  }

  // --- actions for users

  void answer(process& p, ticket t) {
    if (p.waiting.erase(t) == 0) object(promise::answers, name(p) + " answers an acquire twice");
  }
  void perform(process& p, action::grant& a) {
    if (p.waiting.empty() || p.waiting.begin()->first != a.ticket) object(promise::order, name(p) + " overtakes");
    answer(p, a.ticket);
    ++result_.grants;
    hold h{a.numbers.at(0), {}, 0, p.clock.truly(a.deadline)};
    for (const auto& [seat, its] : p.seats)
      if (number_of(seat) == h.number) h.seat = seat, h.connection = its;
    h.was_dropped = queues_.of(h.number).owner != owner_of(h.connection);
    for (const slot_id each : p.releasing)
      if (index_of(each) == index_of(a.slot)) object(promise::answers, name(p) + " reuses the place of a release");
    if (p.revoked.contains(h.seat)) object(promise::losses, name(p) + " hands on a slot that was removed");
    tell(name(p), " has slot ", h.number, " by ", static_cast<std::uint64_t>(h.seat));
    check_grant(p, h);
    p.holds.emplace(a.slot, h);
    if (bug_ == broker_bug::token_while_believing && dice_.chance(25))
      send(p, h.seat, {h.seat, 0, {broker_frame::ask_b, broker_frame::put_token}});
    release_after(p, a.slot, hold_time());
  }
  /// Until the user has released a slot, nobody else of ours gets it.
  void check_grant(const process& by, const hold& its) {
    for (const process& p : processes_)
      for (const auto& [id, h] : p.holds) {
        if (!p.alive || h.number != its.number || h.excused) continue;
        if (believes(h))
          object(promise::exclusion,
                 name(by) + " gets slot " + std::to_string(h.number) + ", in which " + name(p) + " believes");
        else if (!h.was_dropped || now() < h.deadline)
          object(promise::losses, name(by) + " gets slot " + std::to_string(h.number) + ", which a user of " + name(p) +
                                      " has not released");
      }
  }
  void perform(process& p, action::deny& a) { refused(p, a.ticket); }
  void perform(process& p, action::fail& a) { refused(p, a.ticket); }
  void refused(process& p, ticket t) {
    answer(p, t);
    user_rests(p);
  }
  void perform(process& p, action::released& a) {
    if (p.releasing.erase(a.slot) == 0) object(promise::answers, name(p) + " answers a release twice");
  }
  void perform(process& p, action::lose& a) {
    const auto at = p.holds.find(a.slot);
    if (at == p.holds.end() || at->second.lost) {
      // A user that releases the slot at this time is told so by the release.
      if (!p.releasing.contains(a.slot)) object(promise::losses, name(p) + " loses what nobody holds");
      return;
    }
    hold& h = at->second;
    ++result_.losses;
    tell(name(p), " loses slot ", h.number, ": ", to_string(a.reason));
    check_cause(p, h, a.reason);
    h.lost = true;
    h.excused = a.reason == loss_reason::closed;
    if (p.releasing.erase(a.slot) != 0) return;  // its release is on the way, and is not answered
    if (bug_ == broker_bug::token_before_the_user_lets_go && p.seats.contains(h.seat))
      send(p, h.seat, {h.seat, 0, {broker_frame::ask_b, broker_frame::put_token, broker_frame::delete_b}});
    release_after(p, a.slot, dice_.between(0s, 2 * lease_time));
  }
  void check_cause(const process& p, const hold& h, loss_reason reason) {
    const auto at = connections_.find(h.connection);
    const bool ended = at == connections_.end() || !at->second.open_here;
    const bool fine = (reason == loss_reason::session_invalidated && ended) ||
                      (reason == loss_reason::removed && h.was_dropped) ||
                      (reason == loss_reason::lease_expired && now() >= h.deadline) ||
                      (reason == loss_reason::application_silent && now() >= h.deadline && options_.hangs) ||
                      (reason == loss_reason::closed && ending_);
    if (!fine) object(promise::losses, name(p) + " loses a slot without a cause");
  }
  void perform(process& p, action::revoke& a) {
    const auto at = p.holds.find(a.slot);
    if (at != p.holds.end()) p.revoked.insert(at->second.seat);
  }
  void perform(process& p, action::update& a) {
    const auto at = p.holds.find(a.slot);
    if (at != p.holds.end()) at->second.deadline = p.clock.truly(a.deadline);
  }
  void perform(process& p, action::closed&) {
    p.closed = true;
    if (p.hint) queues_.hints.insert(queues_.hints.begin(), std::exchange(p.hint, {})->number);
    for (const int each : std::exchange(p.warm, {})) close_here(each);
  }
  void perform(process&, action::note&) {}
  /// The question waits until the application runs again.
  void perform(process& p, action::ask_alive&) {
    p.asked_at = now();
    later(p, std::max(p.hangs_until - now(), duration(0)) + hanging_.between(0ms, 2ms), [this, &p] {
      p.asked_at = never;
      deliver(p, event::alive{true});
    });
  }

  // --- the link

  duration latency() { return dice_.chance(90) ? dice_.between(100us, 3ms) : dice_.between(1ms, 400ms); }
  void count(process& p) {
    ++p.requests;
    ++result_.requests;
    check_cost(p);
  }
  void perform(process& p, action::probe& a) {
    count(p);
    if (p.is_cut) return probe_fails(p, a.id, 500ms);
    if (alarm_) {
      tell_of_alarm(p);
      return;  // it is not answered before the alarm is over, and then nobody asks for it
    }
    later(p, latency(), [this, &p, a] {
      if (p.is_cut) return probe_fails(p, a.id, 500ms);
      event::probed seen{a.id, {}, {}};
      for (std::uint32_t k = 1; k <= a.count; ++k)
        seen.slots.push_back(k > options_.slots ? event::probed::slot{}
                                                : event::probed::slot{queues_.of(k).exists, queues_.of(k).owner != 0});
      later(p, latency(), [this, &p, seen] { deliver(p, seen); });
    });
  }
  void probe_fails(process& p, request_id id, duration after) {
    later(p, after, [this, &p, id] { deliver(p, event::probed{id, {}, unreachable()}); });
  }
  static failure unreachable() { return {make_error_code(error::unreachable), {}}; }

  void perform(process& p, action::seize& a) {
    count(p);
    if (number_of(a.seat) > options_.slots) {  // a guess in an alarm
      p.seats[a.seat] = 0;
      return later(p, latency(),
                   [this, &p, a] { deliver(p, event::seized{a.seat, a.id, event::seizure::no_such_slot, false, {}}); });
    }
    if (p.is_cut) {
      p.seats[a.seat] = 0;
      return later(p, 500ms, [this, &p, a] {
        deliver(p, event::seized{a.seat, a.id, event::seizure::failed, false, unreachable()});
      });
    }
    int chosen = 0;
    if (!p.warm.empty()) {
      chosen = p.warm.back();
      p.warm.pop_back();
    } else {
      chosen = ++last_connection_;
      connections_[chosen] = {p.number, p.life};
    }
    p.seats[a.seat] = chosen;
    send(p, a.seat, write_of(a, bug_));
  }
  void perform(process& p, action::verify& a) {
    // The clock of the process may be slow, and an answer gets a moment more.
    if (p.asked_at != never && now() - std::max(p.asked_at, p.runs_since) > lease_time / 2 * 6 / 5 + 10ms)
      object(promise::losses, name(p) + " verifies for an application that hangs");
    count(p);
    send(p, a.seat, write_of(a));
  }
  void perform(process& p, action::cleanse& a) {
    count(p);
    if (bug_ == broker_bug::grant_without_verification)
      return later(p, 1ms,
                   [this, &p, a] { deliver(p, event::verified{a.seat, a.id, event::verification::ours, true, {}}); });
    send(p, a.seat, write_of(a, bug_));
  }
  void perform(process& p, action::vacate& a) {
    count(p);
    if (number_of(a.seat) > options_.slots) {
      p.seats.erase(a.seat);
      return later(p, latency(), [this, &p, a] { deliver(p, event::vacated{a.seat, a.id, {}}); });
    }
    if (a.with_token && bug_ == broker_bug::token_on_another_connection)
      times_.in(latency(), [this, k = number_of(a.seat)] { queues_.of(k).token = true; });
    if (a.with_token && bug_ == broker_bug::token_after_the_delete) p.tokens_due.insert(a.seat);
    send(p, a.seat, write_of(a, bug_));
  }
  void perform(process& p, action::drop& a) {
    const auto at = p.seats.find(a.seat);
    if (at == p.seats.end()) return;
    close_here(at->second);
    p.seats.erase(at);
  }
  void perform(process& p, action::listen& a) {
    p.listening = a.on;
    deliver_hints();
  }
  void perform(process& p, action::settle_hint& a) {
    if (!p.hint || p.hint->hint != a.hint) return;
    const std::uint32_t number = std::exchange(p.hint, {})->number;
    if (!a.used) queues_.hints.insert(queues_.hints.begin(), number);
    deliver_hints();
  }
  void perform(process&, action::create&) {}

  void deliver_hints() {
    for (std::size_t i = 0; i != processes_.size() && !queues_.hints.empty(); ++i) {
      process& p = processes_[(next_consumer_ + i) % processes_.size()];
      if (!p.alive || !p.listening || p.hint || p.is_cut) continue;
      next_consumer_ = static_cast<std::size_t>(p.number) + 1;
      p.hint = event::hinted{hint_id{++last_hint_}, queues_.hints.front()};
      queues_.hints.erase(queues_.hints.begin());
      ++p.hints_heard;
      later(p, latency(), [this, &p, e = *p.hint] { deliver(p, e); });
      return deliver_hints();
    }
  }

  /// The number by which the broker knows the owner. The bug lets two processes share a connection.
  int owner_of(int id) const { return bug_ == broker_bug::second_declare_wins ? 1'000'000 : id; }
  void send(process& p, seat_id seat, broker_write w) {
    const auto at = p.seats.find(seat);
    if (at == p.seats.end()) return;  // its connection has ended, and the core does not know that yet
    const int id = at->second;
    connection& c = connections_.at(id);
    c.sends_at = std::max(c.sends_at, now() + latency());
    times_.in(c.sends_at - now(), [this, id, w] {
      connection& its = connections_.at(id);
      if (its.is_cut || !its.open_there) return;
      its.inbox.push_back(w);
      if (std::exchange(its.running, true)) return;
      const bool is_release = w.what == broker_write::kind::vacate;
      if (options_.operators && !calm_ && is_release && dice_.chance(2)) {
        delete_while_released(w.number());
        times_.in(2 * lease_time, [this, id] { carry_out_next(id); });
      } else if (options_.harsh && !calm_ && dice_.chance(1))  // the broker is busy
        times_.in(dice_.between(0s, lease_time), [this, id] { carry_out_next(id); });
      else
        carry_out_next(id);
    });
  }
  /// The broker carries out one frame, and goes on a moment later.
  void carry_out_next(int id) {
    connection& c = connections_.at(id);
    if (!c.open_there || c.inbox.empty()) return void(c.running = false);
    broker_write& w = c.inbox.front();
    if (!w.is_done()) {
      const broker_frame next = w.frames[w.next];
      if (alarm_ && (next == broker_frame::put_token || next == broker_frame::put_hint)) {
        c.hangs = true;
        process& p = processes_[static_cast<std::size_t>(c.process)];
        if (p.life != c.life) return;
        tell_of_alarm(p);
        later(p, latency(), [this, &p, seat = w.seat] { deliver(p, event::seat_blocked{seat}); });
        return;
      }
      if (next == broker_frame::put_token && options_.harsh && !calm_ && dice_.chance(2)) {
        drop_next_owner(w.number(), lease_time * 3 / 2);
        return force_close(id);
      }
      if (queues_.carry_out(next, w.number(), owner_of(id), w.got_token))
        ++w.next;
      else
        w.refused = next;
      if (next == broker_frame::put_hint) deliver_hints();
    }
    if (w.is_done()) {
      reply(id, w);
      c.inbox.pop_front();
    }
    times_.in(dice_.between(1us, 200us), [this, id] { carry_out_next(id); });
  }
  void reply(int id, const broker_write& w) {
    if (w.id == 0) return;
    connection& c = connections_.at(id);
    c.hears_at = std::max(c.hears_at, now() + latency());
    times_.in(c.hears_at - now(), [this, id, w] {
      const connection& its = connections_.at(id);
      if (!its.open_here || its.is_cut) return;
      process& p = processes_[static_cast<std::size_t>(its.process)];
      if (p.life != its.life || !p.alive) return;
      const bool over = w.what == broker_write::kind::vacate || w.refused == broker_frame::declare_b;
      if (over && p.seats.erase(w.seat) != 0) p.closed ? close_here(id) : p.warm.push_back(id);
      deliver(p, w.answer());
    });
  }

  // --- the ends of connections

  /// B goes without its owner's deed.
  void drop_b(std::uint32_t number) {
    auto& s = queues_.of(number);
    for (process& p : processes_)
      for (auto& [id, h] : p.holds)
        if (h.number == number && owner_of(h.connection) == s.owner) h.was_dropped = true;
    s.owner = 0;
  }
  void end_there(int id) {
    connection& c = connections_.at(id);
    if (!std::exchange(c.open_there, false)) return;
    if (!c.inbox.empty() && !alarm_) {
      const broker_write& w = c.inbox.front();
      // A frame that the broker has already taken may still be carried out.
      const bool is_token = !w.is_done() && w.frames[w.next] == broker_frame::put_token &&
                            (w.next != 0 || bug_ == broker_bug::no_question_before_the_token);
      if (is_token && dice_.chance(50))
        times_.in(dice_.between(0s, lease_time * 8 / 10), [this, k = w.number()] { queues_.of(k).token = true; });
    }
    c.inbox.clear();
    for (std::uint32_t k = 1; k <= options_.slots; ++k) {
      if (queues_.of(k).owner != owner_of(id)) continue;
      if (bug_ == broker_bug::token_after_an_unclean_end) queues_.of(k).token = true;
      drop_b(k);
    }
  }
  void close_here(int id) {
    if (id == 0) return;
    connection& c = connections_.at(id);
    c.open_here = false;
    if (c.is_cut) return;  // the broker finds out by itself
    c.sends_at = std::max(c.sends_at, now() + latency());
    times_.in(c.sends_at - now(), [this, id] { end_there(id); });
  }
  /// The process hears that its connection has ended.
  void hear_end(int id) {
    connection& c = connections_.at(id);
    if (!std::exchange(c.open_here, false)) return;
    process& p = processes_[static_cast<std::size_t>(c.process)];
    if (p.life != c.life || !p.alive) return;
    std::erase(p.warm, id);
    for (const auto& [seat, its] : p.seats)
      if (its == id) {
        const seat_id ended = seat;
        p.seats.erase(ended);
        return deliver(p, event::connection_ended{ended, {make_error_code(error::connection_lost), {}}});
      }
  }
  void force_close(int id) {
    end_there(id);
    connection& c = connections_.at(id);
    c.hears_at = std::max(c.hears_at, now() + latency());
    times_.in(c.hears_at - now(), [this, id] { hear_end(id); });
  }
  std::vector<int> connections_of(const process& p) const {
    std::vector<int> all;
    for (const auto& [id, c] : connections_)
      if (c.process == p.number && c.life == p.life && (c.open_here || c.open_there)) all.push_back(id);
    return all;
  }
  void cut(int id) {
    connections_.at(id).is_cut = true;
    times_.in(dice_.between(2 * heartbeat, 3 * heartbeat), [this, id] { end_there(id); });
    times_.in(dice_.between(2 * heartbeat, 3 * heartbeat), [this, id] { hear_end(id); });
  }

  // --- faults

  void plan_fault() {
    times_.in(dice_.between(50ms, 3s), [this] {
      if (calm_) return;
      fault();
      plan_fault();
    });
  }
  void plan_hang() {
    times_.in(hanging_.between(50ms, 5s), [this] {
      if (calm_) return;
      process& p = processes_[hanging_.below(processes_.size())];
      ++result_.faults;
      p.hangs_until = std::min(now() + hanging_.between(0s, 3 * lease_time), time_point(faulty_time));
      tell("the application of ", name(p), " hangs");
      plan_hang();
    });
  }
  process& any_process() { return processes_[dice_.below(processes_.size())]; }
  void fault() {
    ++result_.faults;
    const auto kind = dice_.below(10);
    if (options_.alarms && dice_.chance(20)) return begin_alarm();
    if (options_.operators && dice_.chance(40)) return operator_acts();
    process& p = any_process();
    if (!options_.harsh || kind < 2) return kind < 5 ? crash(p) : freeze(p, dice_.between(1ms, 900ms));
    if (kind < 5) return freeze(p, dice_.between(10ms, 3 * lease_time));
    if (kind == 5) return restart();
    const std::vector<int> open = connections_of(p);
    if (open.empty()) return;
    const int id = open[dice_.below(open.size())];
    tell("connection ", id, " of ", name(p), kind < 8 ? " is closed" : " is cut");
    if (kind < 8) return force_close(id);
    if (kind == 8) return cut(id);
    cut_off(p);
  }
  void cut_off(process& p) {
    if (p.is_cut) return;
    p.is_cut = true;
    for (const int each : connections_of(p)) cut(each);
    later(p, dice_.between(10ms, 8s), [this, &p] {
      p.is_cut = false;
      deliver_hints();
    });
  }
  void crash(process& p) {
    if (!p.alive) return;
    tell(name(p), " crashes");
    p.alive = false;
    const bool host_dies = options_.harsh && dice_.chance(30);
    for (const int each : connections_of(p)) {
      if (host_dies)
        times_.in(dice_.between(2 * heartbeat, 3 * heartbeat), [this, each] { end_there(each); });
      else
        times_.in(latency(), [this, each] { end_there(each); });
      connections_.at(each).open_here = false;
    }
    if (p.hint) queues_.hints.insert(queues_.hints.begin(), p.hint->number);
    p.holds.clear();
    times_.in(dice_.between(10ms, 2s), [this, &p] { boot(p); });
  }
  void freeze(process& p, duration time) {
    if (!p.alive || p.frozen) return;
    tell(name(p), " is frozen");
    p.frozen = true;
    if (time > 2 * heartbeat)
      later(p, 2 * heartbeat, [this, &p] {
        if (p.frozen)
          for (const int each : connections_of(p)) force_close(each);
      });
    later(p, time, [this, &p] { thaw(p); });
  }
  void thaw(process& p) {
    tell(name(p), " goes on");
    p.frozen = false;
    p.runs_since = now();
    std::deque<broker_event> missed = std::exchange(p.inbox, {});
    for (broker_event& each : missed) deliver(p, std::move(each));
  }
  void restart() {
    tell("the broker restarts");
    for (auto& [id, c] : connections_)
      if (c.open_there) force_close(id);
    queues_.restart();
    alarm_ = false;
    for (process& p : processes_) {
      p.hint.reset();
      if (std::exchange(p.told_of_alarm, false)) deliver(p, event::blocked{false});
    }
  }
  void operator_acts() {
    const auto k = 1 + static_cast<std::uint32_t>(dice_.below(options_.slots));
    if (dice_.chance(60)) {
      tell("an operator deletes B of ", k);
      return drop_b(k);
    }
    tell("an operator removes or makes the last slot");
    auto& last = queues_.of(options_.slots);
    if (options_.slots > 1) last.exists = !last.exists;
  }
  /// An operator deletes B while its owner's release is on the way.
  void delete_while_released(std::uint32_t k) {
    ++result_.faults;
    tell("an operator deletes B of ", k, ", which is being released");
    drop_b(k);
    drop_next_owner(k, 2 * lease_time);
  }
  /// Closes the connection of the owner that may have waited for a whole lease.
  void drop_next_owner(std::uint32_t k, duration latest) {
    times_.in(dice_.between(lease_time, latest), [this, k] {
      const int owner = queues_.of(k).owner;
      if (!calm_ && connections_.contains(owner)) force_close(owner);
    });
  }
  void begin_alarm() {
    if (std::exchange(alarm_, true)) return;
    tell("an alarm");
    times_.in(dice_.between(100ms, 4s), [this] { end_alarm(); });
  }
  void end_alarm() {
    if (!std::exchange(alarm_, false)) return;
    tell("the alarm is over");
    for (auto& [id, c] : connections_)
      if (std::exchange(c.hangs, false)) carry_out_next(id);
    for (process& p : processes_)
      if (std::exchange(p.told_of_alarm, false)) deliver(p, event::blocked{false});
  }
  void tell_of_alarm(process& p) {
    if (std::exchange(p.told_of_alarm, true)) return;
    later(p, latency(), [this, &p] {
      if (p.told_of_alarm) deliver(p, event::blocked{true});
    });
  }

  // --- peers, which follow the description

  void peer_rests(int peer) {
    times_.in(dice_.between(10ms, 300ms), [this, peer] {
      if (ending_) return;
      peer_tries(peer);
    });
  }
  void peer_tries(int peer) {
    const auto k = 1 + static_cast<std::uint32_t>(dice_.below(options_.slots));
    auto& s = queues_.of(k);
    if (!s.exists || s.owner != 0) return peer_rests(peer);
    const int owner = -1 - peer;
    s.owner = owner;
    peers_[peer] = k;
    times_.in(hold_time(), [this, peer, k, owner] {
      if (queues_.of(k).owner == owner) queues_.of(k).owner = 0;
      peers_.erase(peer);
      peer_rests(peer);
    });
  }

  const broker_world_options options_;
  const broker_bug bug_;
  std::ostream* const story_;
  dice dice_;
  dice hanging_;  ///< for what hangs
  timetable times_;
  broker_queues queues_;
  std::vector<process> processes_;
  std::map<int, connection> connections_;
  int last_connection_ = 0;
  std::map<int, std::uint32_t> peers_;
  std::uint64_t last_hint_ = 0;
  std::size_t next_consumer_ = 0;
  bool alarm_ = false;
  bool calm_ = false;
  bool ending_ = false;
  digest trace_;
  broker_world_result result_;
};

}  // namespace

broker_world_result run_broker_world(const broker_world_options& options, broker_bug bug, std::ostream* story) {
  return broker_run(options, bug, story).run();
}

}  // namespace holdfast::test

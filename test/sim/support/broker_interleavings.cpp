// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/broker_interleavings.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/support/digest.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

namespace {

constexpr duration whole_lease = 6s;
constexpr duration time_step = whole_lease / 3;
constexpr int late_token_steps_max = 3;  // a late token comes within a lease

/// One thing that may happen next.
struct broker_choice {
  enum class kind : std::uint8_t {
    carries_out,
    hears,
    wakes,
    releases,
    time_passes,
    late,
    never,
    ends,
    restarts,
    deletes
  };
  kind what;
  std::uint8_t process = 0;
  std::uint8_t connection = 0;
};

class crossroads {
public:
  using choice = broker_choice;

  explicit crossroads(const broker_interleaving_options& o) : options_(o) {
    queues_.slots = {{true, 0, o.begins_clean}};
    for (int i = 0; i != o.processes; ++i) {
      broker_options its;
      its.lease = whole_lease;
      its.lease_margin = whole_lease / 10;
      its.give_up_after = 100s;  // the search has no such long runs
      its.poll_interval = time_step / 2;
      its.yield_time = time_step / 2;
      bend(its, o.bug);
      processes_.push_back({broker_pool(its, 1)});
    }
    for (std::size_t i = 0; i != processes_.size(); ++i) asks(i);
  }

  /// The choices, except those that lead to the same as another.
  std::vector<choice> choices() const {
    using enum choice::kind;
    std::vector<choice> all;
    bool amid = false;
    for (std::uint8_t i = 0; i != processes_.size(); ++i) {
      const process& p = processes_[i];
      for (std::uint8_t c = 0; c != p.connections.size(); ++c) {
        const connection& its = p.connections[c];
        if (its.open && !its.out.empty()) all.push_back({carries_out, i, c});
        if (!its.in.empty()) all.push_back({hears, i, c});
        if (its.open && (its.dropped || accidents_ < options_.accidents)) all.push_back({ends, i, c});
        amid = amid || (its.open && its.is_amid());
      }
      if (p.pool.wake() <= now_) all.push_back({wakes, i});
      if (p.slot != slot_id::none) all.push_back({releases, i});
    }
    if (late_ != 0) {
      all.push_back({late});
      all.push_back({choice::kind::never});
    }
    if (!amid && (options_.time_steps == 0 || steps_ < options_.time_steps)) all.push_back({time_passes});
    if (accidents_ < options_.accidents) {
      all.push_back({restarts});
      if (options_.operators && queues_.slots.front().owner != 0) all.push_back({deletes});
    }
    return all;
  }

  void take(const choice& c) {
    using enum choice::kind;
    switch (c.what) {
      case carries_out:
        return carry_out(c.process, c.connection);
      case hears: {
        auto& in = processes_[c.process].connections[c.connection].in;
        broker_event e = std::move(in.front());
        in.pop_front();
        return step(c.process, std::move(e));
      }
      case wakes:
        return step(c.process, event::tick{});
      case releases:
        return step(c.process, event::release{std::exchange(processes_[c.process].slot, slot_id::none)});
      case time_passes:
        now_ += time_step;
        ++steps_;
        if (late_ != 0 && ++late_ > late_token_steps_max) late_ = 0;
        return;
      case late:
        queues_.of(1).token = true;
        [[fallthrough]];
      case never:
        late_ = 0;
        return;
      case ends:
        accidents_ += !processes_[c.process].connections[c.connection].dropped;
        return end(c.process, c.connection);
      case restarts:
        ++accidents_;
        return restart();
      case deletes:
        ++accidents_;
        queues_.of(1).owner = 0;
    }
  }

  int believers() const {
    return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [&](const process& p) {
      return p.slot != slot_id::none && !p.lost && now_ < p.deadline;
    }));
  }

  std::uint64_t fingerprint() const {
    const auto& s = queues_.slots.front();
    digest d;
    d << accidents_ << late_ << s.token << (options_.time_steps == 0 ? 0 : steps_);
    for (const process& p : processes_) {
      p.pool.add_state(d, now_);
      d << (p.pool.wake() <= now_) << (p.slot != slot_id::none) << p.lost << (options_.acquires == 0 ? 0 : p.acquires);
      d << (p.slot != slot_id::none ? std::max(p.deadline - now_, duration()) : duration());
      for (const connection& c : p.connections) {
        d << c.open << c.dropped << (s.owner == c.id) << c.in.size() << c.out.size();
        for (const broker_write& w : c.out) d << w.what << w.next << w.frames.size() << w.got_token;
        for (const broker_event& e : c.in) add(d, e);
      }
    }
    return d.value();
  }

  std::string describe(const choice& c) const {
    static const char* const words[] = {"the broker carries out a frame of",
                                        "hears:",
                                        "wakes:",
                                        "releases:",
                                        "time passes",
                                        "a late token arrives",
                                        "a late token is dropped",
                                        "a connection ends:",
                                        "restart",
                                        "an operator deletes B"};
    std::string text = words[static_cast<int>(c.what)];
    text += " process " + std::to_string(c.process) + " (" + std::to_string(c.connection) + ");";
    for (const process& p : processes_)
      text += " [" +
              std::string(p.slot == slot_id::none ? "-"
                          : p.lost                ? "lost"
                          : now_ < p.deadline     ? "HELD"
                                                  : "over") +
              "]";
    return text + " B=" + std::to_string(queues_.slots.front().owner) + (queues_.slots.front().token ? " clean" : "") +
           " t=" + std::to_string(steps_);
  }

private:
  struct connection {
    int id = 0;
    seat_id seat{};
    bool open = true;      ///< at the broker
    bool dropped = false;  ///< the process has closed it
    std::deque<broker_write> out{};
    std::deque<broker_event> in{};

    bool is_amid() const {
      return !out.empty() && out.front().what == broker_write::kind::vacate && out.front().next != 0;
    }
  };
  struct process {
    broker_pool pool;
    slot_id slot = slot_id::none;
    bool lost = false;
    time_point deadline{};
    int acquires = 0;
    std::vector<connection> connections{};
  };

  static void add(digest& d, const broker_event& e) {
    d << e.index();
    if (const auto* const a = std::get_if<event::seized>(&e)) d << a->outcome << a->token;
    if (const auto* const a = std::get_if<event::verified>(&e)) d << a->outcome << a->exists;
  }

  void asks(std::size_t i) {
    process& p = processes_[i];
    if (options_.acquires != 0 && p.acquires == options_.acquires) return;
    step(i, event::acquire{ticket{static_cast<std::uint64_t>(++p.acquires)}});
  }

  void step(std::size_t i, broker_event e) {
    process& p = processes_[i];
    if (auto* const seized = std::get_if<event::seized>(&e);
        seized && options_.bug == broker_bug::no_wait && seized->outcome == event::seizure::ok)
      seized->token = true;
    broker_actions out;
    p.pool.step(std::move(e), now_, out);
    for (broker_action& each : out) std::visit([&](auto& a) { perform(i, a); }, each);
    forget_dead(p);
  }
  static void forget_dead(process& p) {
    std::erase_if(p.connections, [](const connection& c) { return !c.open && (c.dropped || c.in.empty()); });
  }
  connection* of(process& p, seat_id seat) {
    for (connection& c : p.connections)
      if (c.seat == seat && !c.dropped) return &c;
    return nullptr;
  }

  template <class Action>
  void perform(std::size_t, const Action&) {}
  void perform(std::size_t i, const action::grant& a) {
    process& p = processes_[i];
    p.slot = a.slot;
    p.lost = false;
    p.deadline = a.deadline;
    if (options_.bug != broker_bug::token_while_believing) return;
    for (connection& c : p.connections)
      if (c.open && !c.dropped) c.out.push_back({c.seat, 0, {broker_frame::ask_b, broker_frame::put_token}});
  }
  void perform(std::size_t i, const action::lose&) { processes_[i].lost = true; }
  void perform(std::size_t i, const action::update& a) { processes_[i].deadline = a.deadline; }
  void perform(std::size_t i, const action::released&) { asks(i); }
  void perform(std::size_t i, const action::probe& a) {
    event::probed seen{a.id, {{true, queues_.of(1).owner != 0}}, {}};
    seen.slots.resize(a.count);
    step(i, std::move(seen));
  }
  void perform(std::size_t i, const action::seize& a) {
    connection c{++last_connection_, a.seat};
    c.out.push_back(write_of(a, options_.bug));
    processes_[i].connections.push_back(std::move(c));
  }
  void perform(std::size_t i, const action::verify& a) { send(i, a.seat, write_of(a)); }
  void perform(std::size_t i, const action::cleanse& a) { send(i, a.seat, write_of(a, options_.bug)); }
  void perform(std::size_t i, const action::vacate& a) { send(i, a.seat, write_of(a, options_.bug)); }
  void perform(std::size_t i, const action::drop& a) {
    if (connection* const c = of(processes_[i], a.seat)) {
      c->dropped = true;
      c->in.clear();
    }
  }
  void send(std::size_t i, seat_id seat, broker_write w) {
    if (connection* const c = of(processes_[i], seat); c && c->open) c->out.push_back(std::move(w));
  }

  void carry_out(std::size_t i, std::size_t at) {
    connection& c = processes_[i].connections[at];
    broker_write& w = c.out.front();
    if (queues_.carry_out(w.frames[w.next], 1, c.id, w.got_token))
      ++w.next;
    else
      w.refused = w.frames[w.next];
    if (!w.is_done()) return;
    const bool over = w.what == broker_write::kind::vacate || w.refused == broker_frame::declare_b;
    if (!c.dropped && w.id != 0) c.in.push_back(w.answer());
    c.out.pop_front();
    // The connection stays open for other seats, which is not modelled.
    if (over) c.open = false;
    forget_dead(processes_[i]);
  }
  void end(std::size_t i, std::size_t at) {
    connection& c = processes_[i].connections[at];
    if (!c.out.empty()) {
      const broker_write& w = c.out.front();
      if (w.frames[w.next] == broker_frame::put_token &&
          (w.next != 0 || options_.bug == broker_bug::no_question_before_the_token))
        late_ = 1;
    }
    if (queues_.of(1).owner == c.id && options_.bug == broker_bug::token_after_an_unclean_end)
      queues_.of(1).token = true;
    queues_.end_connection(c.id);
    c.open = false;
    c.out.clear();
    if (!c.dropped) c.in.push_back(event::connection_ended{c.seat, {}});
    forget_dead(processes_[i]);
  }
  void restart() {
    for (process& p : processes_) {
      for (connection& c : p.connections) {
        if (!c.open) continue;
        c.open = false;
        c.out.clear();
        if (!c.dropped) c.in.push_back(event::connection_ended{c.seat, {}});
      }
      forget_dead(p);
    }
    queues_.restart();
    late_ = 0;
  }

  broker_interleaving_options options_;
  broker_queues queues_;
  std::vector<process> processes_;
  time_point now_{1h};
  int steps_ = 0;
  int accidents_ = 0;
  int late_ = 0;
  int last_connection_ = 0;
};

/// Where a state came from: the fingerprint of the state before, and what happened then.
struct origin {
  std::uint64_t before = 0;
  broker_choice by{};
};

std::string story_to(const broker_interleaving_options& options, const std::unordered_map<std::uint64_t, origin>& seen,
                     std::uint64_t end) {
  std::vector<broker_choice> choices;
  for (auto at = seen.find(end); at != seen.end() && at->second.before != at->first; at = seen.find(at->second.before))
    choices.push_back(at->second.by);
  crossroads again(options);
  std::string story;
  for (auto each = choices.rbegin(); each != choices.rend(); ++each) {
    again.take(*each);
    story += again.describe(*each) + '\n';
  }
  return story;
}

}  // namespace

broker_interleaving_result explore(const broker_interleaving_options& options) {
  broker_interleaving_result result;
  const crossroads start(options);
  std::unordered_map<std::uint64_t, origin> seen{{start.fingerprint(), {start.fingerprint(), {}}}};
  std::deque<crossroads> open{start};
  while (!open.empty() && seen.size() < options.states_max) {
    const crossroads here = std::move(open.front());
    open.pop_front();
    const std::uint64_t from = here.fingerprint();
    for (const broker_choice& each : here.choices()) {
      crossroads there = here;
      there.take(each);
      const std::uint64_t print = there.fingerprint();
      if (!seen.emplace(print, origin{from, each}).second) continue;
      if (there.believers() > 1) {
        result.violation = "R1 two processes believe";
        result.story = story_to(options, seen, print);
        result.states = seen.size();
        return result;
      }
      open.push_back(std::move(there));
    }
  }
  result.states = seen.size();
  result.complete = open.empty();
  return result;
}

}  // namespace holdfast::test

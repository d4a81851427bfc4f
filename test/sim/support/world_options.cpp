// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/world_options.hpp"

#include <algorithm>

#include "protocol/base/operation.hpp"

namespace holdfast::test {

using namespace std::chrono_literals;

namespace {

world_options usual(std::uint64_t seed) {
  dice random(seed);
  world_options o;
  o.seed = seed;
  o.limit = static_cast<std::uint32_t>(random.chance(90) ? 1 + random.below(3) : 4 + random.below(3));
  o.processes = static_cast<int>(random.chance(75) ? 1 + random.below(3) : 4 + random.below(5));
  o.users = static_cast<int>(1 + random.below(3));
  o.go_contenders = random.chance(25) ? static_cast<int>(1 + random.below(2)) : 0;
  o.request_faults = random.chance(40) ? 0 : static_cast<unsigned>(random.below(25));
  o.crashes = random.chance(35);
  o.pauses = random.chance(35);
  o.partitions = random.chance(20);
  o.agent_restarts = random.chance(20);
  o.failovers = random.chance(20);
  o.operators = random.chance(15);
  o.load_changes = random.chance(25);
  o.clock_ppm = random.chance(50) ? 0 : 20'000;
  o.latency_max = random.chance(70) ? 4ms : 60ms;
  o.ttl = 2s;
  o.hold_max = 1s;
  o.rest_max = 1s;
  o.faults_last = 4s;
  o.calm_lasts = 2s;
  o.local_handoff_time = random.chance(50) ? 100ms : 0ms;
  o.slot_idle_timeout = random.chance(70) ? 0ms : random.chance(90) ? 200ms : 10s;
  o.session_idle_timeout = 4s;
  // A long watch hides no lost wake-up. A short watch is the usual safety net.
  o.watch_wait = random.chance(60) ? 600s : 1s;
  // After a snapshot was restored, a watch with an earlier index may sleep. So it ends before the calm part begins.
  if (o.operators && o.watch_wait > o.faults_last) o.watch_wait = o.faults_last;
  o.watch_all_max = random.chance(50) ? 0 : 4;
  o.own_watch = random.chance(70) ? 100ms : 0ms;
  o.rejoin_window = random.chance(70) ? 5ms : 50ms;
  if (random.chance(25)) {
    o.administrators = static_cast<int>(1 + random.below(2));
    o.users += static_cast<int>(random.below(5));  // so that somebody waits here at any limit
    o.hold_max = 3s;                               // longer than the news of a revocation may take
  }
  o.numbered = random.chance(20);
  if (o.numbered && random.chance(50)) o.lock_delay = 400ms;
  // HashiCorp's clients do not spare holders that may still believe.
  o.deregistrations = o.go_contenders == 0 && random.chance(20);
  o.suspends = o.pauses && random.chance(50);
  o.errors = random.chance(20);
  o.health_checks = o.go_contenders == 0 && !o.deregistrations && random.chance(12);
  if (o.health_checks) o.lock_delay = o.ttl;  // as the options derive it
  o.without_node_rule = static_cast<int>(random.below(4));
  o.run_directory = dice(seed * 41).chance(50);
  o.hidden_writes = dice(seed * 43).chance(8);
  dice hanging(seed * 47);
  o.hangs = hanging.chance(20);
  if (o.hangs) o.alive_within = o.ttl / (hanging.chance(50) ? 4 : 1);
  if (o.hidden_writes && !o.pauses) o.faults_last = 8s;  // long enough for the longest pause between two requests
  return o;
}

}  // namespace

world_options world_options::of(std::uint64_t seed) {
  world_options o = usual(seed);
  if (o.numbered && o.deregistrations) o.lock_delay = o.ttl;  // as the options derive it
  dice random(~seed);
  dice more(seed * 31);
  if (more.chance(30)) o.session_idle_timeout = 300ms;
  o.accepts = dice(seed * 37).chance(50);
  if (more.chance(20)) o.far_latency_max = 100ms;
  if (more.chance(15)) {
    o.agent_wait_max = 100ms;
    o.tells_wait = more.chance(50) ? 1 : 0;
  }
  const bool is_plain = o.go_contenders == 0 && !o.operators && o.administrators == 0 && !o.health_checks;
  if (is_plain && more.chance(4)) {  // the record changes faster than a distant process can write it
    o.limit = static_cast<std::uint32_t>(3 + more.below(6));
    o.processes = 4;
    o.users = static_cast<int>(3 + more.below(3));
    o.latency_max = 4ms;
    o.far_latency_max = 100ms;
    o.hold_max = 5ms;
    o.rest_max = 20ms;
    o.local_handoff_time = 0ms;
    o.hasty_user = more.chance(25);
    if (o.hasty_user) {  // there is a slot for everybody, and each release changes the record
      o.limit = 8;
      o.users = static_cast<int>(1 + more.below(2));
      o.slot_idle_timeout = 0ms;
    }
    return o;
  }
  if (is_plain && !o.numbered && more.chance(3)) {
    // The residents hold all slots. So a process that waits is alone, or almost, and no other process notices that a
    // resident has died.
    o.residents = static_cast<std::uint32_t>(more.chance(80) ? 200 + more.below(200) : 1'000);
    o.limit = o.residents;
    o.processes = static_cast<int>(1 + more.below(2));
    o.users = 1;
    o.latency_max = 4ms;
    o.far_latency_max = 0s;
    o.load_changes = false;
    o.residents_elsewhere = more.chance(30);
    if (o.residents_elsewhere) o.without_node_rule = 0;
    if (more.chance(30)) {  // one write grants few of the waiters, and no other process reads the queue in time
      o.residents_die_at_once = true;
      o.limit = o.residents = 100;
      const bool many_processes = more.chance(50);  // then none of them watches everything
      o.processes = many_processes ? 16 : 3;
      o.users = many_processes ? 7 : 40;
      o.hold_max = 30s;
      o.long_terms = true;  // so that only the residents' slots come free
      o.rest_max = 50ms;
      o.ttl = 4s;  // it bounds the time after which a waiter reads the queue (`facts::own_watch`)
      o.request_bytes = 40 * 1024;
      o.request_faults = 0;
      o.crashes = o.pauses = o.suspends = o.errors = o.partitions = o.agent_restarts = o.failovers = false;
      o.deregistrations = false;
    }
    return o;
  }
  if (random.chance(98)) return o;
  // More operations than one transaction takes, and often more bytes, too.
  o.limit = static_cast<std::uint32_t>(30 + random.below(25));
  o.processes = static_cast<int>(2 + random.below(3));
  o.users = static_cast<int>(20 + random.below(30));
  o.request_bytes = random.chance(70) ? 40 * 1024 : protocol::request_bytes_max;
  return o;
}

world_options world_options::of_a_mutex(std::uint64_t seed) {
  world_options o = usual(seed);
  o.mutex = true;
  o.limit = 1;
  o.administrators = 0;
  o.numbered = false;
  if (dice(seed * 31).chance(30)) o.session_idle_timeout = 300ms;
  o.accepts = dice(seed * 37).chance(50);
  return o;
}

world_options world_options::of_an_election(std::uint64_t seed) {
  world_options o = of_a_mutex(seed);
  dice random(~seed);
  o.election = true;
  if (o.operators) o.watch_wait = 2s;  // long enough to miss news, short enough to see that before the end
  o.deregistrations = false;           // each campaign is a new process, which has seen no holder
  o.observers = static_cast<int>(1 + random.below(2));
  o.processes = static_cast<int>(2 + random.below(4));
  o.users = 1;
  o.load_changes = false;
  o.slot_idle_timeout = 0ms;
  o.hold_max = 3s;                   // so that a leader lasts for longer than its report may take
  o.long_terms = random.chance(20);  // so that a proclaim may arrive late, after others of the same term
  o.overlapping_proclaims = random.chance(50);
  return o;
}

world_options world_options::of_a_set(std::uint64_t seed) {
  world_options o = of_a_mutex(seed);
  dice random(~seed);
  o.go_contenders = 0;
  o.deregistrations = false;  // a process that only tries a lock has seen no holder either
  o.accepts = false;          // no process grants to another one
  o.run_directory = false;    // nobody waits in a set
  o.locks = static_cast<std::size_t>(random.chance(50) ? 1 + random.below(3) : 4 + random.below(20));
  o.users = static_cast<int>(random.chance(90) ? 1 + random.below(6) : 40 + random.below(60));
  if (o.users > 10) o.locks = 100;  // more than fits into one transaction
  if (random.chance(15)) {          // the loss of a session is noticed long before a renewal shows it
    o.operators = true;
    o.ttl = 10s;
    o.hold_max = 8s;
    o.faults_last = 12s;
    o.watch_wait = std::min(o.watch_wait, o.faults_last);
  }
  if (!o.operators && random.chance(25)) {
    o.long_break = true;
    o.session_idle_timeout = 4 * o.ttl;
  }
  if (o.health_checks) o.lock_delay = o.ttl;
  if (!o.operators && !o.long_break && random.chance(6)) {
    o.one_by_one = true;
    o.processes = static_cast<int>(2 + random.below(2));
    o.users = static_cast<int>(60 + random.below(40));  // more than the batches in which each must be answered
    o.locks = 200;
    o.latency_max = 60ms;  // few batches fit into the time for an answer
    o.calm_lasts = 5s;     // twice that time
  }
  return o;
}

world_options world_options::a_long_day(std::uint64_t seed) {
  world_options o = of(seed);
  o.limit = 1;
  o.processes = 2;
  o.users = 1;
  o.go_contenders = 0;
  o.request_faults = 0;
  o.crashes = o.pauses = o.suspends = o.errors = o.partitions = o.agent_restarts = o.failovers = o.operators =
      o.load_changes = false;
  o.administrators = 0;
  o.clock_ppm = 20'000;
  o.ttl = 15s;
  o.session_idle_timeout = 60s;
  o.watch_wait = 10s;
  o.hold_max = 24h;
  o.faults_last = 24h;
  o.deregistrations = o.health_checks = o.hidden_writes = o.hangs = false;
  o.alive_within = 0s;
  o.lock_delay = 0s;
  o.request_bytes = 0;
  o.far_latency_max = o.agent_wait_max = 0s;
  o.residents = 0;
  o.residents_die_at_once = o.residents_elsewhere = o.hasty_user = false;
  return o;
}

}  // namespace holdfast::test

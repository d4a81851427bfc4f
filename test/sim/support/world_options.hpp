// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "protocol/base/time.hpp"
#include "sim/support/dice.hpp"

namespace holdfast::test {

/// The parameters of a simulated world. They are derived from a seed, which also decides all that is random in it.
struct world_options {
  std::uint64_t seed = 0;
  std::uint32_t limit = 1;
  bool mutex = false;  ///< a mutex instead of a semaphore
  /// Requires `mutex`. Each acquire is a campaign with a pool and a value of its own, and leaders proclaim new values.
  bool election = false;
  int observers = 0;
  /// A leader may begin a second proclaim while the first one is pending.
  bool overlapping_proclaims = false;
  bool long_terms = false;  ///< each hold lasts up to `hold_max`; otherwise most holds are short
  /// From one TTL before the end of the faults until the calm part, no user begins a request.
  bool long_break = false;
  bool numbered = false;  ///< each slot has a number
  std::size_t locks = 0;  ///< the number of names in a mutex set, which replaces the semaphore; 0: no set
  /// Only with a mutex set. A process releases one lock each time it sends a batch, so that a release is due at the
  /// next batch.
  bool one_by_one = false;
  int processes = 2;
  int users = 1;  ///< users in each process at the start
  int go_contenders = 0;

  // A new fault is drawn from a generator of its own, for example dice(seed * 43). A draw from the common generator
  // would turn every seed into another world. A fault also says, where it matters:
  // - what it excuses: `perform` of `lose` and of `fail` (world_users.cpp), `keeps_slots_of_the_lost`, `check_use`
  // - when it is over: `calm_` and `settled_` (world.cpp)
  // - whether a process receives nothing meanwhile: `is_disturbed` (world_checks.cpp)
  // - whether sessions end early: `forgotten_`, `bereft_until_`, `withheld_until_`, `excuse_newcomer`
  // - whether traffic stops: `is_answered`, `answer_watches`; whether sessions are refused: `create_session`
  // - whether a candidate may give up: world_elections.cpp
  // - in which worlds it does not happen: the functions `of_*`
  // Sets and administrators make requests of their own (world_sets.cpp, world_administrators.cpp). `lint.names` checks
  // flags only, not numbers such as percentages.

  // The faults, that is:
  // What goes wrong, until `faults_last` has passed. Each flag has a row in `world::accidents`, which the test
  // `lint.names` checks.
  unsigned request_faults = 0;  ///< percentage of requests that meet a fault
  bool crashes = false;         ///< processes crash; some are replaced
  bool pauses = false;          ///< processes pause, some for longer than a lease
  bool suspends = false;        ///< some pauses suspend the whole machine, and timers stand still
  bool errors = false;          ///< for a while, all requests of a process get the same error
  bool partitions = false;      ///< processes are cut off from Consul, some for longer than a lease
  bool agent_restarts = false;  ///< the watches of a process fail at once, and its requests fail for a moment
  /// Consul has no leader and answers nothing for a moment; then every TTL starts anew.
  bool failovers = false;
  /// Operators destroy sessions, edit and delete keys, and Consul loses or restores its state.
  bool operators = false;
  bool deregistrations = false;  ///< operators remove the node of all sessions from the catalog
  /// Sessions depend on the health check of their process's own node, which fails at times.
  bool health_checks = false;
  /// Reads show a process a state from before, or no keys, with the index of now.
  bool hidden_writes = false;
  bool load_changes = false;  ///< the number of users changes
  /// The applications of processes hang: they do not say that they are alive, some for longer than a lease.
  bool hangs = false;
  /// Administrators close, open, resize, revoke, evict, sweep and destroy; the processes use the recorded limit.
  int administrators = 0;
  /// The largest request that Consul takes, in worlds where many hold and wait; 0: no request comes near the limit.
  std::size_t request_bytes = 0;
  unsigned clock_ppm = 0;  ///< the error of a process's clock, in parts per million
  protocol::duration latency_max{};
  protocol::duration far_latency_max{};  ///< the latency of every second process; 0: no process is far away
  /// The agent ends each blocking query after this time at the latest; 0: after the requested time.
  protocol::duration agent_wait_max{};
  int tells_wait = 0;  ///< 1: the reply tells the process when the agent has waited for less than requested
  /// The number of holders without a process in this world. They only hold a slot and die. The limit includes them.
  std::uint32_t residents = 0;
  /// True: all residents die soon after all users have joined. False: one dies now and then and is replaced.
  bool residents_die_at_once = false;
  /// The residents are on a node of their own. Only that node shows that nobody believes in their slots.
  bool residents_elsewhere = false;
  /// The first user of the second process acquires and releases one slot without a pause. The latency of this process
  /// is at most 1 ms, so it changes the record faster than the other processes can write it.
  bool hasty_user = false;
  /// The tokens of this many out of every three processes may not read nodes.
  int without_node_rule = 0;

  // The pools' options.
  protocol::duration ttl{};
  protocol::duration local_handoff_time{};
  protocol::duration slot_idle_timeout{};
  protocol::duration session_idle_timeout{};
  /// Most processes keep files on the host that show when they are gone, and watch those of the others.
  bool run_directory = false;
  bool accepts = false;             ///< most processes take part in the acceptance of grants
  protocol::duration lock_delay{};  ///< the lock delay of the sessions
  protocol::duration watch_wait{};
  protocol::duration alive_within{};
  std::size_t watch_all_max = 0;
  protocol::duration own_watch{};
  protocol::duration rejoin_window{};

  protocol::duration hold_max{};
  protocol::duration rest_max{};  ///< the longest pause of a user between two requests
  protocol::duration faults_last{};
  protocol::duration calm_lasts{};

  protocol::duration slowest() const { return std::max(latency_max, far_latency_max); }

  /// A world with a semaphore.
  static world_options of(std::uint64_t seed);
  /// A world with a mutex.
  static world_options of_a_mutex(std::uint64_t seed);
  /// A world with an election.
  static world_options of_an_election(std::uint64_t seed);
  /// A world with a mutex set.
  static world_options of_a_set(std::uint64_t seed);
  /// Two processes compete for one slot for a whole day. Each clock is wrong by two percent.
  static world_options a_long_day(std::uint64_t seed);
};

/// A family of worlds, one for each seed from 1 on. No world of it may break a guarantee.
struct world_kind {
  world_options (*of)(std::uint64_t seed);
  std::uint64_t usual;  ///< the number of worlds in a usual run
};
inline constexpr world_kind worlds_of_a_semaphore{world_options::of, 4600};
inline constexpr world_kind worlds_of_a_mutex{world_options::of_a_mutex, 2000};
inline constexpr world_kind worlds_of_an_election{world_options::of_an_election, 1000};
inline constexpr world_kind worlds_of_a_set{world_options::of_a_set, 1000};

}  // namespace holdfast::test

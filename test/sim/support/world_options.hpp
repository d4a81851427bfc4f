#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "protocol/time.hpp"
#include "sim/support/dice.hpp"

namespace holdfast::test {

/// What kind of world it is. A seed decides that, too.
struct world_options {
  std::uint64_t seed = 0;
  std::uint32_t limit = 1;
  bool mutex = false;  ///< instead of a semaphore
  /// Of a mutex: each acquire is a campaign, with a pool and a value of its own, and who leads proclaims.
  bool election = false;
  int observers = 0;
  /// A leader may begin a second proclaim while the first one is pending.
  bool overlapping_proclaims = false;
  bool long_terms = false;  ///< who leads does so for long
  bool long_break = false;  ///< before what is calm begins, nobody asks for anything
  bool numbered = false;    ///< each slot has a number
  std::size_t locks = 0;    ///< of a mutex set, instead of a semaphore: so many names
  /// Of a set: with each batch that a process sends, it releases one lock. So a release is due at the next batch.
  bool one_by_one = false;
  int processes = 2;
  int users = 1;  ///< in each process, at first
  int go_contenders = 0;

  // What goes wrong, until `faults_last` is over. Each flag has a row in `world::accidents`: `lint.names` looks.
  unsigned request_faults = 0;   ///< percent
  bool crashes = false;          ///< of processes; some come back
  bool pauses = false;           ///< of processes, longer than a lease
  bool suspends = false;         ///< some of them are of the whole machine: timers stand still
  bool errors = false;           ///< all that a process asks is answered with one error, for a while
  bool partitions = false;       ///< between a process and Consul, for longer than a lease
  bool agent_restarts = false;   ///< a process's requests and watches fail at once, for a moment
  bool failovers = false;        ///< of Consul's leader: nothing is answered, then every TTL starts anew
  bool operators = false;        ///< destroy sessions, edit and delete keys
  bool deregistrations = false;  ///< operators take the node of all sessions out of the catalog
  bool health_checks = false;    ///< sessions depend on the health of their process's own node, which fails at times
  bool load_changes = false;     ///< users come and go
  int administrators = 0;  ///< close, open, resize, revoke, evict, sweep and destroy; its limit is the recorded one
  std::size_t request_bytes = 0;  ///< the largest that Consul takes, where many hold and wait; 0: none is near it
  unsigned clock_ppm = 0;         ///< how far a process's clock may be off, in parts in a million
  protocol::duration latency_max{};
  protocol::duration far_latency_max{};  ///< of every second process; 0: of none
  protocol::duration agent_wait_max{};   ///< no query waits for longer; 0: as long as it asks for
  int tells_wait = 0;                    ///< 1: whoever asks knows that
  /// The number of holders without a process in this world. They only hold a slot and die. The limit includes them.
  std::uint32_t residents = 0;
  bool residents_die_at_once =
      false;  ///< soon after all users have joined. False: one dies now and then, and is replaced
  bool residents_elsewhere =
      false;  ///< on a node of their own. Only that node shows that nobody believes in their slots
  /// The first user of the second process acquires and releases one slot without a pause. The latency of this process
  /// is at most 1 ms, so it changes the record faster than the other processes can write it.
  bool hasty_user = false;
  /// Of three processes, so many have tokens that may not read nodes.
  int without_node_rule = 0;

  // The pools' options.
  protocol::duration ttl{};
  protocol::duration local_handoff_time{};
  protocol::duration slot_idle_timeout{};
  protocol::duration session_idle_timeout{};
  bool accepts = false;             ///< grants by other processes
  protocol::duration lock_delay{};  ///< of what sessions have locked
  protocol::duration watch_wait{};
  std::size_t watch_all_max = 0;
  protocol::duration own_watch{};
  protocol::duration rejoin_window{};

  protocol::duration hold_max{};
  protocol::duration rest_max{};  ///< of a user, between two requests
  protocol::duration faults_last{};
  protocol::duration calm_lasts{};

  protocol::duration slowest() const { return std::max(latency_max, far_latency_max); }

  /// The world of a seed.
  static world_options of(std::uint64_t seed);
  /// The same with a mutex.
  static world_options of_a_mutex(std::uint64_t seed);
  /// The same with an election.
  static world_options of_an_election(std::uint64_t seed);
  /// The same with a mutex set.
  static world_options of_a_set(std::uint64_t seed);
  /// Two processes that want the same slot for a whole day, with clocks that run apart by two percent each.
  static world_options a_long_day(std::uint64_t seed);
};

/// Worlds that are claimed to break nothing: those of the seeds from 1 on.
struct world_kind {
  world_options (*of)(std::uint64_t seed);
  std::uint64_t usual;  ///< so many are looked at in the usual run
};
inline constexpr world_kind worlds_of_a_semaphore{world_options::of, 4600};
inline constexpr world_kind worlds_of_a_mutex{world_options::of_a_mutex, 2000};
inline constexpr world_kind worlds_of_an_election{world_options::of_an_election, 1000};
inline constexpr world_kind worlds_of_a_set{world_options::of_a_set, 500};

}  // namespace holdfast::test

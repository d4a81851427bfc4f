#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/lock_record.hpp"
#include "protocol/operation.hpp"
#include "protocol/succession.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

/// The semaphore's options as the core needs them; `semaphore_options` documents them.
struct pool_options {
  std::string prefix;    ///< what begins like this is listed and watched: with its trailing slash; a mutex's whole key
  std::string lock_key;  ///< whole
  record_form form = record_form::map;  ///< of the lock key: a semaphore's, if not `session`
  std::string description;
  std::uint32_t limit = 1;
  bool adopt = false;
  bool single = false;    ///< for one acquire: it closes when that is answered, and what it gave is released
  bool numbered = false;  ///< a slot is not used before its session has locked a number, too
  /// What makes wall-clock time, since 1970, of the core's. None: our entries say neither since when they stand, nor
  /// for how long we may believe in them.
  std::optional<duration> wall_offset{};
  /// Which node of Consul's catalog our sessions end with; empty: the agent's own.
  std::string node{usual_node};
  std::size_t waiters_max = 1'000'000;
  std::size_t request_bytes = request_bytes_max;  ///< the largest that Consul takes
  duration ttl = std::chrono::seconds(15);
  duration lease_margin = std::chrono::milliseconds(1500);
  duration tenure = std::chrono::milliseconds(100);
  duration idle{};
  duration outage_grace{};
  duration give_up_after = std::chrono::seconds(5);
  duration patience = std::chrono::milliseconds(500);
  duration lock_delay{};
  duration session_idle = std::chrono::seconds(60);
  /// A slot that is held for less gets no watch: a burst of short holds costs two writes each and nothing else.
  duration watch_delay = std::chrono::milliseconds(10);
  /// How long a slot may be held before an entry of ours is watched beside all the others, for the sake of deletions
  /// that a watch of everything is not told of.
  duration own_entry_delay = std::chrono::seconds(1);
  duration watch_wait = std::chrono::seconds(10);
  /// Where a slot was wanted again within this time lately, its giver queues again in the write that gives it away, and
  /// stands there for as long, whether or not it is wanted: a loop of acquire and release costs one write a turn.
  duration rejoin_window = std::chrono::milliseconds(5);
  /// With no more contenders than this, whoever watches anything watches all of it.
  std::size_t watch_all_max = 4;
  /// How long a waiter watches its own entry only, which is touched when it is granted: at least, and for each that may
  /// stand before it. Where slots move fast it needs nothing else; where they do not, it then looks after the others.
  duration own_watch = std::chrono::milliseconds(100);
  duration own_watch_each = std::chrono::milliseconds(5);
  /// Of a mutex: how long it goes from hand to hand before it is let go for once, with the head of the queue only
  /// woken. Clients of other kinds have no entry, and would get it never. 0: there are none.
  duration courtesy = std::chrono::seconds(1);
  /// How long the waiting behind the head of the queue leave it to the head's own process to take a free slot.
  duration grant_backup = std::chrono::milliseconds(100);
};

/// What contenders' keys begin with, before their sessions.
inline std::string entries_of(const pool_options& o) {
  return o.form == record_form::session ? o.lock_key + '/' : o.prefix;
}

/// acquire(n) joins in one transaction: n entries, the listing, and room for the write of the record.
inline constexpr std::uint32_t acquire_max = operations_max - 4;

}  // namespace holdfast::protocol

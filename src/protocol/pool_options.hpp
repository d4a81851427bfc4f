#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/core_options.hpp"
#include "protocol/lock_record.hpp"
#include "protocol/operation.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

/// The semaphore's options as the core needs them; `semaphore_options` documents them.
struct pool_options : core_options {
  std::string lock_key{};               ///< whole
  record_form form = record_form::map;  ///< of the lock key: a semaphore's, if not `session`
  std::uint32_t limit = 1;
  bool use_recorded_limit = false;
  bool single = false;    ///< for one acquire: it closes when that is answered, and what it gave is released
  bool numbered = false;  ///< a slot is not used before its session has locked a number, too
  std::size_t request_bytes = request_bytes_max;  ///< the largest that Consul takes
  duration local_handoff_time = std::chrono::milliseconds(100);
  duration slot_idle_timeout{};
  bool accepts = false;  ///< grants by other processes, so that these may be taken back while they are not accepted
  /// A slot that is held for less is not accepted: it goes back before anybody could take it.
  duration accept_delay = std::chrono::milliseconds(100);
  duration claim_timeout = std::chrono::milliseconds(500);
  duration lock_delay{};
  /// A slot that is held for less gets no watch: a burst of short holds costs two writes each and nothing else.
  duration watch_delay = std::chrono::milliseconds(10);
  /// How long a slot may be held before an entry of ours is watched beside all the others, for the sake of deletions
  /// that a watch of everything is not told of.
  duration own_entry_delay = std::chrono::seconds(1);
  /// If the last acquire came within this time after the last release, the next release queues again in the same write,
  /// and keeps that place in the queue for this time, although nobody here wants it yet. So a loop of acquire and
  /// release costs one write a turn.
  duration rejoin_window = std::chrono::milliseconds(5);
  /// With no more contenders than this, whoever watches anything watches all of it.
  std::size_t watch_all_max = 4;
  /// A waiter watches its own entry only, which a grant touches, for `own_watch`, and `own_watch_each` more for each
  /// contender that waits (`facts::own_watch`). After that it also watches those before it: slots do not move fast
  /// there.
  duration own_watch = std::chrono::milliseconds(100);
  duration own_watch_each = std::chrono::milliseconds(5);
  /// With more contenders than `watch_all_max`, a watch of everything begins so long after the last one was answered,
  /// for each contender there is, but a quarter of a second at most: `facts::everything_pause`.
  duration watch_pause_each = std::chrono::microseconds(500);
  /// Of a mutex: how long it goes from hand to hand before it is let go for once, with the head of the queue only
  /// woken. Clients of other kinds have no entry, and would get it never. 0: there are none.
  duration yield_interval = std::chrono::seconds(1);
  /// How long other processes leave it to the process of the first waiter to write the grant of a free slot. After once
  /// to twice that, by chance, one of them writes it.
  duration grant_backup = std::chrono::milliseconds(100);
};

/// What contenders' keys begin with, before their sessions.
inline std::string entries_of(const pool_options& o) {
  return o.form == record_form::session ? o.lock_key + '/' : o.prefix;
}

/// acquire(n) joins in one transaction: n entries, the listing, and room for the write of the record.
inline constexpr std::uint32_t acquire_max = operations_max - 4;

}  // namespace holdfast::protocol

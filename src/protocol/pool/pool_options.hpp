// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/base/operation.hpp"
#include "protocol/base/time.hpp"
#include "protocol/core/core_options.hpp"
#include "protocol/core/core_trust.hpp"
#include "protocol/record/lock_record.hpp"

namespace holdfast::protocol {

/// The options of a semaphore, a mutex or an election, as the core needs them. `holdfast/options.hpp` documents those
/// that users set.
struct pool_options : core_options {
  std::string lock_key{};               ///< the full key
  record_form form = record_form::map;  ///< the form of the lock key; `session` means a mutex
  std::uint32_t limit = 1;
  bool use_recorded_limit = false;
  /// The pool serves one acquire. It begins to close when that acquire is answered, and is closed after the slot is
  /// released.
  bool single = false;
  core_trust before{};                            ///< of the pool before this one, which goes on from there
  bool numbered = false;                          ///< a slot is used only after its session has also locked a number
  std::size_t request_bytes = request_bytes_max;  ///< the largest request that Consul accepts
  duration local_handoff_time = std::chrono::milliseconds(100);
  duration slot_idle_timeout{};
  /// Grants by other processes are provisional until this process accepts them, unless the TTL is too short for that
  /// (`acceptance_of`).
  bool accepts = false;
  /// A provisional slot that is held for less time than this is not accepted. It is released before anybody could take
  /// it back.
  duration accept_delay = std::chrono::milliseconds(100);
  /// Ask the shell for proofs that makers of sessions are gone (`gone_makers`), while somebody here waits for a slot of
  /// another process, and for this time after that. 0: never.
  duration watch_makers{};
  /// How long the slot of such a session is still left alone.
  duration gone_delay{};
  duration claim_timeout = std::chrono::milliseconds(500);
  duration lock_delay{};
  /// A slot that is held for less time than this gets no watch. So a burst of short holds costs two writes for each
  /// hold and nothing else.
  duration watch_delay = std::chrono::milliseconds(10);
  /// If a slot has been held for this time, one entry of ours is watched beside the watch of everything. That watch
  /// does not notice all deletions (`wanted_watches`).
  duration own_entry_delay = std::chrono::seconds(1);
  /// If the last acquire came within this time after the last release, another acquire is expected soon. Then, if
  /// contenders wait elsewhere, the next release of a single slot queues again in the same write, although nobody here
  /// wants a slot yet. The entry keeps that place in the queue for this time. So a loop of acquire and release costs
  /// one write a turn.
  duration rejoin_window = std::chrono::milliseconds(5);
  /// If there are no more contenders than this, a holder watches everything, and so does a waiter after `own_watch`.
  /// Other rules for large crowds use this number, too.
  std::size_t watch_all_max = 4;
  /// A waiter watches only its own entry, which a grant touches, for `own_watch`. If it is not the first of the queue,
  /// it does so for `own_watch_each` more for each contender that waits, up to a limit (`facts::own_watch`). After that
  /// it watches the entry before its own, or everything. By then slots move slowly.
  duration own_watch = std::chrono::milliseconds(100);
  duration own_watch_each = std::chrono::milliseconds(5);
  /// If there are more contenders than `watch_all_max`, a watch of everything begins only after a pause since the last
  /// one was answered. The pause is this time for each contender, and at most a quarter of a second
  /// (`facts::everything_pause`).
  duration watch_pause_each = std::chrono::microseconds(500);
  /// For a mutex: how long the key passes from holder to holder before a holder unlocks it without a grant, and only
  /// wakes the head of the queue. With many contenders, each holder waits for longer (`mutex_policy::yields_at`).
  /// Clients of other kinds have no entry, and would never get the key otherwise. 0 if there are no such clients.
  duration yield_interval = std::chrono::seconds(1);
  /// How long other processes leave the grant of a free slot to the process of the first waiter. After a random time
  /// between once and twice this value, one of them writes the grant.
  duration grant_backup = std::chrono::milliseconds(100);
};

/// The prefix of the contenders' keys. The session follows it.
inline std::string entries_of(const pool_options& o) {
  return o.form == record_form::session ? o.lock_key + '/' : o.prefix;
}

/// acquire(n) joins in one transaction: n entries, the listing, and room for the write of the record.
inline constexpr std::uint32_t acquire_max = operations_max - 4;

}  // namespace holdfast::protocol

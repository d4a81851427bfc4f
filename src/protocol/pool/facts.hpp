// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "protocol/pool/pool_parts.hpp"

namespace holdfast::protocol {

inline constexpr duration own_watch_max = std::chrono::seconds(5);
inline constexpr duration watch_pause_max = std::chrono::milliseconds(250);

/// The facts on which a decision of a pool rests: its parts, which a decision only reads, and the time. They live for
/// one decision.
struct facts {
  const pool_parts& parts;
  time_point time;

  const snapshot& now() const { return parts.view.now(); }

  const slot_number* number_of(const member& m) const {
    return parts.options.numbered ? now().number_of(m.session) : nullptr;
  }
  bool lacks_number(const member& m) const { return parts.options.numbered && !number_of(m); }
  /// Whether the slot must not be granted again. An operator has asked for it, or has closed the record, or the limit
  /// was lowered, and now there are too many holders or the slot's number is too high. A local handoff would be such a
  /// grant.
  bool is_withdrawn(const member& m) const;
  /// Whether no user here may get its slot. The slot is lost, returned or withdrawn. Or it has been used here at least
  /// once, and it is another's turn. Then others wait and the time for local handoffs is over, or the mutex must be
  /// unlocked for clients without an entry (`must_yield`).
  bool must_go_back(const member& m) const {
    if (m.lost || m.has_returned || is_withdrawn(m)) return true;
    const bool used_for_long = parts.situation.contested && time >= m.granted_at + parts.options.local_handoff_time;
    return m.handoffs > 0 && (used_for_long || must_yield());
  }
  bool is_usable(const member& m) const { return !must_go_back(m) && !lacks_number(m) && !m.acceptance.is_awaited(); }

  /// The time from which a release of the mutex grants nobody, so that clients without an entry can take it
  /// (`mutex_policy::yields_at`). `never` for a semaphore, and without a `yield_interval`.
  time_point yields_at() const { return parts.mutex.yields_at(parts.options, now().crowd()); }
  bool must_yield() const { return time >= yields_at(); }
  /// The approximate number of waiting contenders.
  std::size_t queue() const { return parts.situation.waiting + now().unseen; }
  /// How long a waiter watches its own entry only. This time grows with the queue, so that the waiters of a long queue
  /// do not list everything at once. The first of the queue does not wait for longer than `options.own_watch`: if a
  /// holder dies, the first grants the slot. `most` bounds what another waiter loses when the first has died, too. A
  /// join that reads only the record relies on a listing that is no older than this time (`compose`).
  duration own_watch(bool is_first) const {
    if (is_first) return parts.options.own_watch;
    const duration grown = parts.options.own_watch + static_cast<duration::rep>(queue()) * parts.options.own_watch_each;
    const duration most = std::min<duration>(parts.options.ttl / 4, own_watch_max);
    return std::max(parts.options.own_watch, std::min(grown, most));
  }
  /// The pause between the answer to a watch of everything and the next one. In a large crowd something changes all the
  /// time: without a pause such watches would list everything as fast as Consul can answer. There is no pause if there
  /// are at most `watch_all_max` contenders.
  duration everything_pause() const {
    const std::size_t crowd = now().crowd();
    if (crowd <= parts.options.watch_all_max) return {};
    return std::min(static_cast<duration::rep>(crowd) * parts.options.watch_pause_each, watch_pause_max);
  }
  std::uint64_t entry_flags() const { return contender_magic | (parts.options.numbered ? numbered_flag : 0); }
  /// The text of an entry that is created now.
  std::string entry_text() const;
};

}  // namespace holdfast::protocol

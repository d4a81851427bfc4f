// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/record/snapshot.hpp"
#include "protocol/record/succession.hpp"

namespace holdfast::protocol {

/// One write removes at most this many entries of other processes' sessions that have released their slots without
/// writing the record. The same limit applies to entries whose grants it takes back, and to entries whose makers are
/// gone.
inline constexpr std::size_t given_back_at_once = 8;

/// The rules by which a plan differs from the bare snapshot.
struct plan_rules {
  std::uint32_t limit = 0;
  /// Sessions whose entries the same write takes away, and sessions that must end: they neither hold nor wait.
  std::vector<std::string> leaving{};
  /// Entries of other processes' sessions that have released their slots without writing the record. The same write
  /// removes these entries, and the record names these sessions no more. The pointers point into the snapshot.
  std::vector<const contender*> given_back{};
  /// Contenders that did not accept their grants in time. The write removes their entries. Consul refuses the write if
  /// one of them has accepted its grant meanwhile. The pointers point into the snapshot.
  std::vector<const contender*> taken_back{};
  /// Contenders whose makers are gone. The write removes their entries. The pointers point into the snapshot.
  std::vector<const contender*> gone{};
  /// Waiting contenders of the process that writes the plan. This process certainly lives. So the slots that it takes
  /// back go to these contenders first, and then to the queue, which may begin with more entries of dead processes. The
  /// pointers point into the snapshot.
  std::vector<const contender*> living{};
  /// Sessions of processes that are probably dead (`doubtful_processes`). They are granted after all others.
  std::vector<std::string> doubted{};
  /// Holders that count although they have no entry, because they may still believe in their slots or their lock delay
  /// runs. For a mutex, all holders, because Consul itself prunes them.
  std::vector<std::string> spared{};
  /// The number of slots that must not be granted yet, although the record names no holder for them.
  std::size_t withheld = 0;
  /// Go and guide contenders that did not take their slots in time. No slot is left free for them.
  std::vector<std::string> passed_over{};
  /// True if the snapshot is complete. With an incomplete snapshot, holders without an entry are kept, and a contender
  /// is granted only if it is certain that nobody stands before it.
  bool complete = true;
  /// The most grants that the write may make: as many as fit into the transaction, or 0 if a release grants nobody.
  std::size_t grants_max = SIZE_MAX;
};

/// The content of the next write of the lock key.
struct grant_plan {
  lock_record record;  ///< without the dead and the leaving, with the granted
  /// The pointers point into the snapshot. The contenders of `living` come first, the contenders of `doubted` last, and
  /// all others are in queue order.
  std::vector<const contender*> granted{};
  std::vector<const contender*> left_free{};   ///< Go and guide contenders that a slot stays free for
  std::vector<const contender*> given_back{};  ///< as in the rules
  std::vector<const contender*> taken_back{};  ///< as in the rules
  std::vector<const contender*> gone{};        ///< as in the rules
  succession_view after{};     ///< the contenders behind the granted ones; points into the snapshot, too
  std::uint32_t free = 0;      ///< slots on which no waiting contender has a claim
  bool cut = false;            ///< one write cannot grant all that could be granted
  bool reads_entries = false;  ///< if the write leaves a slot free, it also reads all entries
};

/// The heart of the protocol. A holder is alive if it owns a contender entry. Dead holders are pruned. A holder whose
/// entry is marked (`given_back_flag`) stays in the record until a write removes that entry. Free slots go to the
/// waiting contenders in queue order. `rules` makes exceptions from all this. A contender that does not look for itself
/// in the record cannot be granted, so its slot stays free. While the record is closed, no slot is free.
grant_plan plan(const snapshot& now, const plan_rules& rules);

/// The number of bytes of a transaction that are left beside a write of this record, after the record has grown by as
/// many holders as one transaction grants. 0 if not even that write fits.
std::size_t room_beside(const lock_record& record, std::string_view lock_key, std::size_t request_bytes);
/// The number of grants that fit into `room` bytes, at least one. Their entries stand beside the lock key or below it.
std::size_t grants_that_fit(std::size_t room, std::string_view lock_key);

/// The operation that shows `entry`, whose key is `key`, that the same transaction has granted it.
kv_operation grant_to(const contender& entry, std::string key, const succession_view& after, bool is_provisional);

/// Whether `entry`, a contender of `now`, waits: the record does not name it.
inline bool is_waiting(const snapshot& now, const contender& entry) { return !now.record.names(entry.session); }

}  // namespace holdfast::protocol

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/operation.hpp"
#include "protocol/snapshot.hpp"
#include "protocol/succession.hpp"

namespace holdfast::protocol {

/// So many entries of those that have given their slots back are removed by one write.
inline constexpr std::size_t given_back_at_once = 8;

/// What bends the plan away from the bare snapshot.
struct plan_rules {
  std::uint32_t limit = 0;
  /// Sessions whose entries the same write takes away: they neither hold nor wait.
  std::vector<std::string> leaving{};
  /// Entries of those that have given their slots back. The same write removes them, and the record names these
  /// sessions no more. They point into the snapshot.
  std::vector<const contender*> given_back{};
  /// Contenders that did not accept their grants in time. The write removes their entries. Consul refuses the write if
  /// one of them has accepted its grant meanwhile. The pointers point into the snapshot.
  std::vector<const contender*> taken_back{};
  /// Waiting contenders of the process that writes the plan. This process certainly lives. So the slots that it takes
  /// back go to these contenders first, and then to the queue, which may begin with more entries of dead processes. The
  /// pointers point into the snapshot.
  std::vector<const contender*> living{};
  /// Sessions of processes that are probably dead (`doubtful_processes`). They are granted after all others.
  std::vector<std::string> doubted{};
  /// Dead holders that still count, because their lock delay runs.
  std::vector<std::string> spared{};
  /// Slots that nobody is to have yet, though the record names nobody who holds them.
  std::size_t withheld = 0;
  /// Go and guide contenders that had their chance: no slot is left free for them.
  std::vector<std::string> passed_over{};
  /// Everything there is, is in the snapshot. If not, holders without an entry stay, and only those have a claim of
  /// whom it is certain that nobody stands before them.
  bool complete = true;
  /// A transaction holds only so many operations.
  std::size_t grants_max = SIZE_MAX;
};

/// What the next write of the lock key should say.
struct grant_plan {
  lock_record record;                          ///< without the dead and the leaving, with the granted
  std::vector<const contender*> granted{};     ///< point into the snapshot, in queue order
  std::vector<const contender*> left_free{};   ///< Go and guide contenders that a slot stays free for
  std::vector<const contender*> given_back{};  ///< as in the rules
  std::vector<const contender*> taken_back{};  ///< as in the rules
  succession_view after{};                     ///< those that wait behind the granted; points into the snapshot, too
  std::uint32_t free = 0;                      ///< slots that nobody who waits has a claim on
  bool cut = false;                            ///< one write cannot grant all that could be granted
  bool reads_entries = false;                  ///< if the write leaves a slot free, it also reads all entries
};

/// The heart of the protocol: live holders are those that own a contender entry; the dead are pruned; free slots go to
/// the waiting in queue order. A contender that does not look for itself in the record cannot be granted: its slot
/// stays free. While the record is closed no slot is free.
grant_plan plan(const snapshot& now, const plan_rules& rules);

/// How many bytes of a transaction are left beside a write of this record, to which as many holders may be added as one
/// transaction grants; 0: not even that fits.
std::size_t room_beside(const lock_record& record, std::string_view lock_key, std::size_t request_bytes);
/// How many grants have room in so many bytes, of entries that stand beside the lock key or below it; at least one.
std::size_t grants_that_fit(std::size_t room, std::string_view lock_key);

/// What tells `entry`, whose key is `key`, that the same transaction has granted it.
kv_operation grant_to(const contender& entry, std::string key, const succession_view& after, bool is_provisional);

/// Whether `entry` is alive and not in the record.
inline bool is_waiting(const snapshot& now, const contender& entry) { return !now.record.names(entry.session); }

}  // namespace holdfast::protocol

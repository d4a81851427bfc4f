#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/time.hpp"

namespace holdfast::test {

/// What is broken on purpose, to see whether the checkers notice.
enum class seeded_bug {
  none,
  lease_counted_late,          ///< the lease runs from when the reply came, not from when the request was sent
  unknown_taken_for_refused,   ///< a session is used again after a write of unknown outcome
  no_prune,                    ///< the dead stay in the record
  grant_dropped_after_cancel,  ///< a grant that crosses the user's cancellation is not given back
  watch_misses_deletions,      ///< a contender that leaves or dies wakes nobody
  watch_never_answers,
  unguarded_record,         ///< the record is written without looking at its index
  grant_leaves_the_entry,   ///< the record names the grantee, and nothing is written to its entry
  release_keeps_the_entry,  ///< the record is written, the contender entry stays
  sessions_stay,            ///< what is dropped is not destroyed
  overtaking,               ///< a later waiter is granted what an earlier one should have had
};

inline constexpr seeded_bug seeded_bugs[] = {
    seeded_bug::lease_counted_late,
    seeded_bug::unknown_taken_for_refused,
    seeded_bug::no_prune,
    seeded_bug::grant_dropped_after_cancel,
    seeded_bug::watch_misses_deletions,
    seeded_bug::watch_never_answers,
    seeded_bug::unguarded_record,
    seeded_bug::grant_leaves_the_entry,
    seeded_bug::release_keeps_the_entry,
    seeded_bug::sessions_stay,
    seeded_bug::overtaking,
};

std::string_view to_string(seeded_bug bug);

struct world_result {
  std::string violation{};  ///< empty: every check passed
  std::uint64_t steps = 0;
  std::uint64_t grants = 0;
  std::uint64_t losses = 0;
  std::uint64_t faults = 0;
};

/// Some processes, each with a pool, against one modelled Consul, with all that can go wrong; the seed decides
/// everything. The same seed gives the same run.
///
/// A run has four parts: faults; recovery; calm, in which nothing may go wrong any more; and the end, after which
/// nothing may be left.
world_result run_world(std::uint64_t seed, seeded_bug bug = seeded_bug::none, bool trace = false);

}  // namespace holdfast::test

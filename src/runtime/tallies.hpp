// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/error.hpp>
#include <holdfast/statistics.hpp>

#include "lifetime/tally.hpp"
#include "protocol/core/measurement.hpp"

namespace holdfast::runtime {

using lifetime::histogram_tally;
using lifetime::tallies_by;
using lifetime::tally;

/// The counts of one shell. The shell writes under its mutex. Any thread may read.
struct tallies {
  tally granted, handoffs, denied, cancelled, revoked, freed_by_proof, renewals_failed;
  tallies_by<decltype(lock_statistics::failed)> failed;
  tallies_by<decltype(lock_statistics::lost)> lost;
  histogram_tally<duration_histogram> wait, hold, renewal;
  histogram_tally<ratio_histogram> lease_left;
  tally waiting, held, suspect, sessions, limit;

  /// An acquire has ended without a slot.
  void ended(const error_code& why) noexcept;
  void measured(const protocol::measurement& m) noexcept;
  /// All but the place in the queue.
  lock_statistics read() const noexcept;
};

/// Adds the counters and histograms, and the current values that are sums. `place` and `limit` become those of `more`
/// if they are larger.
void add(lock_statistics& to, const lock_statistics& more) noexcept;

}  // namespace holdfast::runtime

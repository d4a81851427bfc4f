// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/error.hpp>
#include <holdfast/histogram.hpp>
#include <holdfast/loss_reason.hpp>
#include <optional>

namespace holdfast {

/// Statistics of one semaphore, mutex, mutex set or election in this process, on any backend. The counters and the
/// histograms count since its construction. An acquire of several slots counts once, except in `sessions`.
struct lock_statistics {
  std::uint64_t granted = 0;   ///< acquires that completed with a slot
  std::uint64_t handoffs = 0;  ///< grants of a slot that this process already had, without a request
  std::uint64_t denied = 0;    ///< acquires that completed without a slot and without an error, as `try_acquire` may
  std::uint64_t cancelled = 0;
  /// Acquires that failed, by their errors. `failed[error{}]` counts errors of other libraries.
  counters_by<error> failed{};
  counters_by<loss_reason> lost{};  ///< held slots that were lost
  std::uint64_t revoked = 0;        ///< held slots that an operator has asked for
  /// Slots of dead processes that this process has freed because the run directory proved the deaths.
  std::uint64_t freed_by_proof = 0;
  std::uint64_t renewals_failed = 0;  ///< requests to renew a lease that failed, or were answered too late

  /// The waits of the acquires that were granted. If all slots are held in this process when an acquire begins, its
  /// wait is measured by a clock that only ticks every few milliseconds, because that takes less time.
  duration_histogram wait{};
  duration_histogram hold{};     ///< from a grant until its release or loss
  duration_histogram renewal{};  ///< from a request to renew a lease until its answer, for requests that succeeded
  /// How much of a lease was left when it was renewed: 1 is all of it. Leases are renewed after a third of their time.
  ratio_histogram lease_left{};

  std::uint64_t waiting = 0;   ///< acquires that wait now
  std::uint64_t held = 0;      ///< handles that hold now
  std::uint64_t suspect = 0;   ///< the handles among them whose slots are suspect (`slot_state::suspect`)
  std::uint64_t sessions = 0;  ///< sessions now, with those being created; on RabbitMQ connections for slots
  std::uint64_t limit = 0;     ///< the number of slots, as far as is known; 1 for a mutex, a mutex set and an election
  /// The place of the first local waiter in the cluster's queue: 1 is the next one. The place is approximate while many
  /// contenders wait. Empty if nobody waits here, if the place is not known, and on RabbitMQ, which has no such queue.
  std::optional<std::uint64_t> place{};

  bool operator==(const lock_statistics&) const = default;
};

}  // namespace holdfast

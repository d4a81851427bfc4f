// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <optional>

#include "protocol/core/outage.hpp"
#include "protocol/core/overdue_answer.hpp"
#include "protocol/core/sign_of_life.hpp"
#include "protocol/pool/pool_parts.hpp"

namespace holdfast::protocol {

/// The rule for acquires during an outage. While this process has a place in the queue or an unused slot, the outage
/// fails no acquire. Otherwise an acquire fails when it has waited for `give_up_after` during the outage. A request
/// that Consul does not answer counts as an outage, too.
class outage_rule {
public:
  /// The lease of a waiting session has expired, so its place in the queue is lost. Then the outage during which the
  /// place was kept counts for the local waiters at the next check.
  void lost_place(const pool_parts& parts);
  /// Fails the local waiters that have waited for too long. `concerns_waiters`: a local waiter waits for more than a
  /// slot that another user of this process has.
  void check(context& ctx, pool_parts& parts, bool concerns_waiters);
  /// The failure of an outage. Empty if there is none, or if Consul has answered: then it is no outage.
  static std::optional<failure> why_unavailable(const pool_parts& parts);
  /// Why it is not known at the deadline of `w` whether there was a slot for it: Consul has not answered. Empty if a
  /// slot was not free, as far as is known.
  static std::optional<failure> why_unknown(const pool_parts& parts, const waiter& w, time_point now);
  /// Whether a request that the local waiters depend on is pending.
  static bool awaits_answer(const pool_parts& parts) { return first_unanswered(parts) != never; }

private:
  static std::array<const outage*, 4> outages(const pool_parts& parts);
  static time_point queued_until(const pool_parts& parts);
  static time_point shown_until(const member& m, const pool_options& o);
  static time_point first_unanswered(const pool_parts& parts);

  /// The outage during which this process kept a place in the queue that it has just lost.
  std::optional<outage> sat_out_;
  overdue_answer overdue_;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "protocol/pool/outage_rule.hpp"
#include "protocol/pool/own_grants.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/taking.hpp"

namespace holdfast::protocol {

/// The lives of a pool's sessions: their leases, and their ends.
class session_care {
public:
  /// Renews the sessions, and reports those that become suspect. Takes the slots of expired leases away. Ends sessions
  /// that could not be released, and lost ones when their leases are over in Consul, too. Checks provisional grants.
  void check(context& ctx, pool_parts& parts, outage_rule& outages, own_grants& grants);
  /// Whether a session was suspect when the leases were checked last.
  bool is_any_suspect() const { return is_any_suspect_; }
  /// From this time on, a session without an entry has been idle for too long.
  static time_point idle_until(const pool_options& o, const member& m);
  static void retire(context& ctx, pool_parts& parts, taking& takes);

  /// Ends the session. If it stands for a slot, the slot is lost for `reason`.
  static void end(context& ctx, pool_parts& parts, member& m, loss_reason reason, failure why = {});
  /// Does what `end` does, for a session that Consul may have ended together with its node. Holders that were never
  /// seen here may then still believe in their slots, so these are spared for a TTL (`other_holders::ours_ended`).
  static void drop(context& ctx, pool_parts& parts, member& m, loss_reason reason, failure why = {});

private:
  static duration giving_back_max(const pool_parts& parts);
  static time_point stuck_at(const pool_parts& parts, const member& m);
  static void node_may_be_gone(context& ctx, pool_parts& parts, const member& ours);
  static bool may_retire_or_renew(context& ctx, const pool_parts& parts, member& m);

  bool is_any_suspect_ = false;
};

}  // namespace holdfast::protocol

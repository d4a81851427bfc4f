// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "protocol/pool/acceptance.hpp"
#include "protocol/pool/pool_parts.hpp"

namespace holdfast::protocol {

/// Grants to our sessions by other processes, and their acceptance: acceptance.hpp.
class own_grants {
public:
  /// A listing was answered that was requested at `asked_at`.
  void listed(context& ctx, pool_parts& parts, const snapshot& listing, time_point asked_at);
  /// A new grant to this member was seen. `entry` is its entry.
  void granted(context& ctx, member& m, const contender& entry, const pool_options& o);
  void check(context& ctx, pool_parts& parts, member& m);
  void accept(context& ctx, pool_parts& parts);
  /// Whether the last `accept` left an acceptance unsent that was due.
  bool is_any_open() const { return is_any_open_; }
  /// Takes the answer to an acceptance. Returns false if the request was none.
  bool answered(context& ctx, pool_parts& parts, event::txn_done& e);

private:
  acceptances sent_;
  bool is_any_open_ = false;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>

#include "protocol/pool/number_allocator.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/taking.hpp"

namespace holdfast::protocol {

/// Decides about writes: one transaction at a time, which does everything that is due and fits. If a read must come
/// first, it asks for that read instead. Acceptances are sent separately (`own_grants`).
class writer {
public:
  /// Sends the write or the read that is due, and requests the sessions that are needed. Denies or fails the local
  /// waiters that cannot be served.
  void write(context& ctx, pool_parts& parts, taking& takes);

  /// The user is expected to acquire again soon after a release.
  void user_returns_soon() { returns_soon_ = true; }
  /// A write of ours was applied, and its sessions have locked their numbers.
  void applied(const transaction& txn) {
    for (const slot_number& each : txn.numbers)
      if (!each.session.empty()) numbers_.locked(each.number);
  }
  /// Consul does not give this number to anybody yet.
  void number_refused(context& ctx, std::uint32_t number) { numbers_.refused(ctx, number); }
  /// The node that the pending read asks for, if it is a read of a node.
  const std::string& node_asked() const { return node_asked_; }

private:
  class step;

  number_allocator numbers_;
  std::string node_asked_;
  bool returns_soon_ = false;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/claim_timeouts.hpp"
#include "protocol/closing.hpp"
#include "protocol/grant_duty.hpp"
#include "protocol/keys.hpp"
#include "protocol/member.hpp"
#include "protocol/mutex_policy.hpp"
#include "protocol/other_holders.hpp"
#include "protocol/pool_options.hpp"
#include "protocol/read_in_flight.hpp"
#include "protocol/situation.hpp"
#include "protocol/slot_ledger.hpp"
#include "protocol/view.hpp"
#include "protocol/waiter_queue.hpp"
#include "protocol/watch_set.hpp"
#include "protocol/write_in_flight.hpp"

namespace holdfast::protocol {

/// The parts of a pool that several of its machines need. The pool owns them, and passes them to a machine with each
/// call. This struct decides nothing.
struct pool_parts {
  explicit pool_parts(pool_options o) : options(std::move(o)), keys(options), members(options) {
    situation.limit = options.limit;
  }

  pool_options options;
  key_names keys;

  waiter_queue waiters{};
  protocol::members members;
  slot_ledger slots{};
  protocol::view view{};
  protocol::situation situation{};
  claim_timeouts claims{};
  other_holders others{};
  mutex_policy mutex{};
  grant_duty duty{};
  write_in_flight write{};
  read_in_flight read{};
  watch_set watches{};
  protocol::closing closing{};

  std::uint32_t limit() const { return situation.limit; }
  /// Whether the first acquire in the local queue wants several slots.
  bool is_wide() const { return !waiters.empty() && waiters.front().count > 1; }
  failure failed(error_code code, std::string text) const {
    return {code, {std::move(text), options.lock_key, {}, {}}};
  }
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/core/closing.hpp"
#include "protocol/core/liveness.hpp"
#include "protocol/core/waiter_queue.hpp"
#include "protocol/pool/claim_timeouts.hpp"
#include "protocol/pool/consuls_in_turn.hpp"
#include "protocol/pool/grant_duty.hpp"
#include "protocol/pool/keys.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/mutex_policy.hpp"
#include "protocol/pool/other_holders.hpp"
#include "protocol/pool/pool_options.hpp"
#include "protocol/pool/read_back.hpp"
#include "protocol/pool/read_in_flight.hpp"
#include "protocol/pool/situation.hpp"
#include "protocol/pool/slot_ledger.hpp"
#include "protocol/pool/view.hpp"
#include "protocol/pool/watch_set.hpp"
#include "protocol/pool/write_in_flight.hpp"

namespace holdfast::protocol {

/// The parts of a pool that several of its machines need. The pool owns them, and passes them to a machine with each
/// call. This struct keeps them and answers questions about them.
struct pool_parts {
  explicit pool_parts(pool_options o)
      : options(std::move(o)),
        keys(options),
        members(options),
        news(options.prefix),
        application(options.alive_within, options.lock_key) {
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
  contradiction_news news;
  protocol::read_back read_back{};
  consuls_in_turn turns{};
  watch_set watches{};
  protocol::closing closing{};
  liveness application;

  bool has_lost = false;  ///< a member was lost when the leases were checked last

  std::uint32_t limit() const { return situation.limit; }
  /// Whether the first acquire in the local queue wants several slots.
  bool is_wide() const { return !waiters.empty() && waiters.front().terms.count > 1; }
  /// Whether users of this process hold all slots, and the first local waiter can only wait for one of them. Then the
  /// queue needs neither a write nor a read. Returns false if the first waiter must be denied or failed instead,
  /// because it does not wait (`once`) or wants more slots than the limit.
  bool all_in_use() const;
  bool waits_for_others() const { return any_waits(members) || (!waiters.empty() && !all_in_use()); }
  auto snapshot_of(std::vector<kv_entry> listing, std::uint64_t index) const {
    return make_snapshot(keys.entries, keys.lock, std::move(listing), index, options.form);
  }
  void assess_limit() { situation.assess_limit(view, members, options); }
  void read_everything(context& ctx) { read.everything(ctx, keys.prefix, expects_keys()); }
  /// See `action::list_prefix::expects_keys`.
  bool expects_keys() const { return any_holds(members) || any_waits(members); }
  [[gnu::cold]] failure too_many(std::uint32_t count) const;
  [[gnu::cold]] failure failed(error_code code, std::string text) const {
    return {code, {std::move(text), options.lock_key, {}, {}}};
  }
};

inline failure pool_parts::too_many(std::uint32_t count) const {
  std::string text = "cannot acquire " + std::to_string(count) + " slots at once";
  if (count == 0 || count > limit()) text += " from a limit of " + std::to_string(limit());
  if (count > acquire_max) text += "; " + std::to_string(acquire_max) + " is the most for one acquire";
  return failed(error::too_many_slots, std::move(text));
}

inline bool pool_parts::all_in_use() const {
  if (slots.in_use() < limit()) return false;
  // If the limit was lowered, we may hold too many slots. If a slot was taken from us, its entry may stand in the
  // queue.
  const bool others = has_lost || slots.in_use() != members.size();
  if (others && (!slots.spares().empty() || any_waits(members))) return false;
  return waiters.empty() || (!waiters.front().terms.once && waiters.front().terms.count <= limit());
}

}  // namespace holdfast::protocol

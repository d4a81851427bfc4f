// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/pool/facts.hpp"
#include "protocol/pool/grant_duty.hpp"
#include "protocol/pool/other_holders.hpp"
#include "protocol/pool/plan.hpp"

namespace holdfast::protocol {

/// The slots that the local waiters want beyond those in use: whole requests in the order of the queue, as long as the
/// limit has room for them.
struct demand {
  std::uint32_t slots = 0;                ///< in total
  std::vector<std::uint32_t> requests{};  ///< the count of each of these waiters
  bool needs_read = false;                ///< a `once` waiter needs a newer view
};

/// The changes that one write makes to our own entries. The changes of the record are in the plan (`plan`).
struct moves {
  using list = std::vector<const member*>;
  list give_back{};  ///< leave the record and the queue
  list requeue{};    ///< leave the record or their place, and join at the back
  list leave{};      ///< leave the queue
  list join{};
  list number{};                         ///< hold a slot, or take one by this write, and take a number
  std::vector<std::uint32_t> numbers{};  ///< the numbers that the members of `number` take
  bool rejoins_early = false;            ///< the only member of `requeue` joins before anybody here wants a slot

  /// Whether a session of ours leaves the record.
  bool gives() const {
    return !give_back.empty() ||
           std::any_of(requeue.begin(), requeue.end(), [](const member* m) { return m->holds(); });
  }
  bool empty() const { return give_back.empty() && requeue.empty() && leave.empty() && join.empty() && number.empty(); }
};

struct decision {
  moves what{};
  std::vector<member_id> kept{};  ///< spares that stay here; their releases are answered
  std::size_t sessions = 0;       ///< the number of sessions to create
  bool has_sessions = false;      ///< there are enough sessions
  bool returns_soon = false;      ///< the user is still expected to acquire again soon
};

/// Decides which sessions join, leave and stay. `returns_soon`: the user is expected to acquire again soon after a
/// release.
decision decide(moment& at, const facts& f, const demand& need, bool returns_soon);

/// The number of operations that the moves take. A session that leaves its slot or the queue also releases its number,
/// and removes the key of its acceptance.
std::size_t operations(const facts& f, const moves& what);
/// The numbers of the sessions that leave their slots, whose slots are taken back, or whose makers are gone. Only
/// numbers below the limit.
std::vector<std::uint32_t> numbers_left(const facts& f, const moves& what, const grant_plan& next);
/// How many operations for our own entries fit into a request beside the record and one grant. That is always enough
/// for one member. It is less than a transaction allows only if the record or the texts are very long, or if Consul
/// accepts only small requests.
std::size_t moves_beside_record(const facts& f);

/// Whether one more newcomer that takes a slot may take a number in the same write.
bool has_room_for_number(const facts& f, const moves& what, const grant_plan& next);

/// The rules for the plan of a write with these moves.
plan_rules rules_for(moment& at, const facts& f, const moves& what, const other_holders& others, const grant_duty& duty,
                     const std::vector<const contender*>& taken_back, const std::vector<const contender*>& gone);

}  // namespace holdfast::protocol

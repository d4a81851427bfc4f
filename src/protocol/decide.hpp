#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/facts.hpp"
#include "protocol/grant_duty.hpp"
#include "protocol/other_holders.hpp"
#include "protocol/plan.hpp"

namespace holdfast::protocol {

/// What those who wait here need from the cluster, in the order of the queue.
struct demand {
  std::uint32_t slots = 0;                ///< in all
  std::vector<std::uint32_t> requests{};  ///< each one's count
  bool needs_read = false;                ///< one that does not wait needs a fresh view
};

/// What one write does to our own entries, besides what `plan` does to the record.
struct moves {
  using list = std::vector<const member*>;
  list give_back{};  ///< leave the record and the queue
  list requeue{};    ///< leave the record or their place, and join at the back
  list leave{};      ///< leave the queue
  list join{};
  list number{};                         ///< hold, and take a number
  std::vector<std::uint32_t> numbers{};  ///< theirs
  bool rejoins_early = false;            ///< the one of `requeue` is wanted by nobody here yet

  /// Whether it leaves the record.
  bool gives() const {
    return !give_back.empty() ||
           std::any_of(requeue.begin(), requeue.end(), [](const member* m) { return m->holds(); });
  }
  bool empty() const { return give_back.empty() && requeue.empty() && leave.empty() && join.empty() && number.empty(); }
};

struct decision {
  moves what{};
  std::vector<member_id> kept{};  ///< spares that stay here: who gave them back is answered
  std::size_t sessions = 0;       ///< to be created
  bool has_sessions = false;      ///< there are as many as are needed
  bool returns_soon = false;      ///< still
};

/// Which sessions join, leave and stay. `returns_soon`: the last slot that was given back was wanted again at once.
decision decide(context& ctx, const facts& f, const demand& need, bool returns_soon);

/// How many operations the moves take: whoever leaves its slot, or the queue, gives its number back, too.
std::size_t operations(const facts& f, const moves& what);
/// The numbers of the sessions that leave their slots, or whose slots are taken back. Only numbers below the limit.
std::vector<std::uint32_t> numbers_left(const facts& f, const moves& what, const grant_plan& next);
/// How many operations of ours have room in a request beside the record and one grant: more than one member needs. Only
/// a very long record leaves less than a transaction takes.
std::size_t moves_beside_record(const facts& f);

/// Whether one more newcomer that takes a slot may take a number in the same write.
bool has_room_for_number(const facts& f, const moves& what, const grant_plan& next);

/// What the plan of a write with these moves has to respect.
plan_rules rules_for(context& ctx, const facts& f, const moves& what, const other_holders& others,
                     const grant_duty& duty, const std::vector<const contender*>& taken_back);

}  // namespace holdfast::protocol

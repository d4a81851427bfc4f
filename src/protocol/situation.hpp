#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/claim_timeouts.hpp"
#include "protocol/member.hpp"
#include "protocol/pool_options.hpp"
#include "protocol/view.hpp"

namespace holdfast::protocol {

/// What the view of the cluster means for this process. It follows from the view and what stood here before, where the
/// view does not show everything.
struct situation {
  bool contested = false;   ///< somebody else's contender waits
  std::size_t waiting = 0;  ///< contenders that are known to wait, ours included
  bool foreign = false;     ///< there are contenders that nobody may grant, or a holder that grants nobody
  bool foreign_holder = false;
  std::uint32_t limit = 0;  ///< in force; what is configured, or what the record says where that counts
  bool limit_disagrees = false;
  bool over_limit = false;  ///< more hold than the record allows: its limit was lowered

  void assess_contenders(const view& v, const members& ours, const claim_timeouts& slow, const pool_options& o);
  void assess_limit(const view& v, const members& ours, const pool_options& o);
};

/// The limit that a record would be used with.
std::uint32_t limit_of(const lock_record& record, const pool_options& o);
/// Whether the record names a session of ours that did not hold.
bool grants_us(const lock_record& record, const members& ours);

}  // namespace holdfast::protocol

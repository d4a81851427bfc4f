// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/pool/claim_timeouts.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/pool_options.hpp"
#include "protocol/pool/view.hpp"

namespace holdfast::protocol {

/// The meaning of the view for this process. It follows from the view, our sessions, the contenders that are passed
/// over, and the options. Where the view does not show everything, it also depends on the situation before.
struct situation {
  bool contested = false;   ///< a contender of another process waits, and is not passed over
  std::size_t waiting = 0;  ///< contenders that are known to wait, ours included
  bool foreign = false;     ///< there are contenders that nobody may grant, or a holder that grants nobody
  bool foreign_holder = false;
  std::uint32_t limit = 0;  ///< the limit in force: the configured one, or the recorded one if that counts
  bool limit_disagrees = false;
  bool over_limit = false;  ///< the record names more holders than it allows: its limit was lowered

  void assess_contenders(const view& v, const members& ours, const claim_timeouts& slow, const pool_options& o);
  void assess_limit(const view& v, const members& ours, const pool_options& o);
};

/// The limit in force with this record.
std::uint32_t limit_of(const lock_record& record, const pool_options& o);
/// Whether the record names a session of ours that does not hold a slot yet.
bool grants_us(const lock_record& record, const members& ours);

}  // namespace holdfast::protocol

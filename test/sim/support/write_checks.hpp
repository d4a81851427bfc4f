// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/record/snapshot.hpp"
#include "support/referee.hpp"

namespace holdfast::test {

/// The number of holders that have an entry. Each holder of a mutex counts, because Consul itself prunes it.
std::size_t live_holders(const protocol::snapshot& seen);

/// The rules for one write of the record.
struct write_rules {
  std::string writer{};         ///< empty for an operator
  std::uint32_t limit = 0;      ///< the limit if the recorded one does not count
  bool recorded_limit = false;  ///< the recorded limit counts, and operators set it
};
/// Checks one write against G2 and G11. G2: the record names no more live holders than the limit. After an operator has
/// lowered the limit, more may hold, but no new holder is granted. G11: a write of a process keeps what an operator has
/// set.
void check_write(referee& judge, const write_rules& rules, const protocol::snapshot& before,
                 const protocol::snapshot& after);

}  // namespace holdfast::test

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol/snapshot.hpp"
#include "support/referee.hpp"

namespace holdfast::test {

/// Those who hold and live. Of a mutex all do: Consul itself prunes it.
std::size_t live_holders(const protocol::snapshot& seen);

/// What one write may make of the record.
struct write_rules {
  std::string writer{};         ///< empty: an operator
  std::uint32_t limit = 0;      ///< where that of the record does not count
  bool recorded_limit = false;  ///< that of the record does, and operators set it
};
/// G2. Where the limit changes, more may hold than it says, but nobody new. G11: what an operator has ordered stays.
void check_write(referee& judge, const write_rules& rules, const protocol::snapshot& before,
                 const protocol::snapshot& after);

}  // namespace holdfast::test

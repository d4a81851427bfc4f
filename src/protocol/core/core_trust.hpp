// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// How far a core trusts Consul's answers. A mutex set tells nothing.
struct core_trust {
  unsigned contradictions = 0;   ///< answers in a row that contradict each other
  time_point contradicted_at{};  ///< when the last of them was found
  /// If several Consuls answer in turn, no slot is taken until then. `min()` otherwise.
  time_point distrusts_until = time_point::min();
  bool operator==(const core_trust&) const = default;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// A lease was renewed, or was not.
struct renewal_measured {
  bool succeeded = false;
  duration took{};        ///< from the request to the answer
  double lease_left = 0;  ///< if it succeeded: the part of the lease that was left before it was extended
};
/// Slots of dead processes were freed, because the shell had proof of their deaths.
struct slots_freed {
  std::size_t count = 0;
};

/// A measurement of a step of a core, for statistics. No decision depends on it.
using measurement = std::variant<renewal_measured, slots_freed>;
using measurements = std::vector<measurement>;

}  // namespace holdfast::protocol

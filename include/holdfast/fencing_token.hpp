// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace holdfast {

/// A number pair that grows with every grant of a slot. Compare tokens as pairs, and store both numbers.
///
/// With a limit of 1, the resource that the slot protects must refuse any token lower than the highest one that it has
/// seen. Then it is safe from a holder that was paused past its lease. With a higher limit, slots that are held at the
/// same time may have equal tokens, or tokens in any order. In this case protect each resource by its own semaphore of
/// limit 1.
struct fencing_token {
  std::uint64_t grant = 0;    ///< the Raft index of the write that granted the slot to this process
  std::uint64_t handoff = 0;  ///< how often the slot was handed on inside the process since then

  auto operator<=>(const fencing_token&) const = default;
  std::string to_string() const { return std::to_string(grant) + "." + std::to_string(handoff); }
};

}  // namespace holdfast

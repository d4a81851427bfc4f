#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace holdfast {

/// Grows with every grant of a slot. With a limit of 1 the resource that the slot protects refuses a token lower than
/// one it has seen, and so is safe from a holder that was paused past its lease. With a higher limit, slots held at the
/// same time may carry equal tokens, or tokens in either order: protect each thing by a semaphore of limit 1. Compare
/// as a pair; store both numbers.
struct fencing_token {
  std::uint64_t grant = 0;    ///< the Raft index of the write that granted the slot to this process
  std::uint64_t handoff = 0;  ///< how often the slot changed hands inside the process since

  auto operator<=>(const fencing_token&) const = default;
  std::string to_string() const { return std::to_string(grant) + "." + std::to_string(handoff); }
};

}  // namespace holdfast

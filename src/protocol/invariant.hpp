#pragma once

#include <atomic>

namespace holdfast::protocol {

/// Told of each invariant that does not hold. None, as in programs at work: then invariants are not even looked at, as
/// some cost far more than what they are about. Tests set one, in every type of build (test/support/invariants.hpp).
inline constinit std::atomic<void (*)(const char* invariant)> broken_invariant = nullptr;

/// Something that is always true, unless there is a mistake in this code. `holds()` says whether it is.
template <class Holds>
void check_invariant(const char* invariant, Holds holds) {
  if (const auto tell = broken_invariant.load(std::memory_order_relaxed); tell != nullptr && !holds()) tell(invariant);
}

}  // namespace holdfast::protocol

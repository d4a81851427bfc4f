// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>

namespace holdfast::protocol {

/// Called for each invariant that is violated. Null in production, where invariants are not evaluated at all, because
/// some cost far more than the code that they check. Tests set it in every type of build (test/support/invariants.hpp).
inline constinit std::atomic<void (*)(const char* invariant)> broken_invariant = nullptr;

/// Checks a condition that is always true, unless there is a mistake in this code. `holds()` returns the condition.
template <class Holds>
[[gnu::cold]] void evaluate_invariant(const char* invariant, Holds& holds, void (*tell)(const char*)) {
  if (!holds()) tell(invariant);
}
template <class Holds>
void check_invariant(const char* invariant, Holds holds) {
  if (const auto tell = broken_invariant.load(std::memory_order_relaxed)) evaluate_invariant(invariant, holds, tell);
}

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdio>
#include <cstdlib>

#include "protocol/base/invariant.hpp"

namespace holdfast::test {

/// From now on a broken invariant of the library aborts this program, in every type of build.
inline void end_at_a_broken_invariant() {
  protocol::broken_invariant = [](const char* invariant) {
    std::fprintf(stderr, "broken invariant: %s\n", invariant);
    std::abort();
  };
}

}  // namespace holdfast::test

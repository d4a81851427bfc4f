// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "sim/support/sabotage.hpp"
#include "sim/support/world_options.hpp"
#include "support/guarantee.hpp"
#include "support/timeline.hpp"

namespace holdfast::test {

struct world_result {
  std::string violation{};  ///< empty if every check passed
  std::optional<guarantee> broken{};
  std::uint64_t steps = 0;   ///< the number of things that happened; all checks are made after each
  std::uint64_t events = 0;  ///< the number of events that pools received
  std::uint64_t requests = 0;
  std::uint64_t grants = 0;
  std::uint64_t losses = 0;
  std::uint64_t faults = 0;
  std::uint64_t proclaims = 0;
  std::uint64_t news = 0;   ///< reports of observers
  std::uint64_t trace = 0;  ///< a digest of all actions of the cores, in order

  /// Adds the figures of the next world, and takes over its violation.
  void add(const world_result& other);
};

/// A record of a run for people: a text of what happened, and a picture of the holds. Both are optional.
struct chronicle {
  std::ostream* story = nullptr;
  timeline* picture = nullptr;
};

/// Runs processes, each with a pool, against one modelled Consul with everything that can go wrong. The same options,
/// which include the seed, give the same run.
///
/// A run has four parts: faults, recovery, calm and the end. In the calm part nothing may go wrong any more. After the
/// end nothing may be left in Consul.
world_result run_world(world_options options, seeded_bug bug = seeded_bug::none, const chronicle& told = {});

}  // namespace holdfast::test

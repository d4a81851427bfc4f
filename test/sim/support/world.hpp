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
  std::string violation{};  ///< empty: every check passed
  std::optional<guarantee> broken{};
  std::uint64_t steps = 0;   ///< things that happened; all checks were made after each
  std::uint64_t events = 0;  ///< of those, what a pool was told
  std::uint64_t requests = 0;
  std::uint64_t grants = 0;
  std::uint64_t losses = 0;
  std::uint64_t faults = 0;
  std::uint64_t proclaims = 0;
  std::uint64_t news = 0;   ///< that observers told
  std::uint64_t trace = 0;  ///< a digest of all that the cores wanted done, in its order

  /// One world after the other, until a guarantee is broken.
  void add(const world_result& other);
};

/// For people: what happened, in words, and who held what when.
struct chronicle {
  std::ostream* story = nullptr;
  timeline* picture = nullptr;
};

/// Some processes, each with a pool, against one modelled Consul, with all that can go wrong. The same options, seed
/// included, give the same run.
///
/// A run has four parts: faults; recovery; calm, in which nothing may go wrong any more; and the end, after which
/// nothing may be left.
world_result run_world(world_options options, seeded_bug bug = seeded_bug::none, const chronicle& told = {});

}  // namespace holdfast::test

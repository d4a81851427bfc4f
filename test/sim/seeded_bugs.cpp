// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "sim/support/world.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;

namespace {

constexpr std::uint64_t worlds_in_slow_builds = 16;

}  // namespace

BOOST_AUTO_TEST_SUITE(seeded_bugs)

/// A check that has never failed proves nothing. Each bug must be found in worlds that pass without it, and the first
/// violation must be one of the guarantees that the bug breaks. A build with a sanitizer runs only the first worlds of
/// each bug and looks for memory errors. The other builds find all bugs.
BOOST_AUTO_TEST_CASE(every_one_is_found_by_what_it_breaks) {
  const bool is_slow = is_slow_build();
  const bool all = std::getenv("HOLDFAST_ALL_SEEDED_BUGS") != nullptr;
  boost::json::object steps, found_by;
  std::uint64_t soon = 0, most = 0;
  std::string_view slowest;
  for (const seeded_bug_info& each : holdfast::test::seeded_bugs) {
    if (each.rare && !all) continue;
    world_result sum;
    std::uint64_t seed = 0;
    const std::uint64_t worlds = is_slow ? std::min(each.in.usual, worlds_in_slow_builds) : each.in.usual;
    while (sum.violation.empty() && seed != worlds) sum.add(run_world(each.in.of(++seed), each.bug));
    if (is_slow && !sum.broken) continue;
    BOOST_TEST((sum.broken && each.breaks.contain(*sum.broken)),
               each.name << " (" << each.what << ") was not found by what it breaks, but in " << sum.steps
                         << " steps: " << (sum.broken ? sum.violation : "nothing"));
    BOOST_TEST_MESSAGE(each.name << ": " << sum.steps << " steps: " << sum.violation);
    if (!sum.broken) continue;
    steps[each.name] = sum.steps;
    found_by[each.name] = sum.violation.substr(0, sum.violation.find(' '));
    soon += sum.steps <= 10'000;
    if (sum.steps > most) most = sum.steps, slowest = each.name;
  }
  if (is_slow) return;
  print_figures({{"bugs", steps.size()},
                 {"within_10000_steps", soon},
                 {"slowest", slowest},
                 {"steps_of_slowest", most},
                 {"steps", steps},
                 {"found_by", found_by}});
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>

#include "sim/support/broker_interleavings.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;

namespace {

/// Explores all runs of a setting, and checks that no two processes believe. A build with a sanitizer explores only
/// the first states.
std::uint64_t explored(broker_interleaving_options options) {
  if (is_slow_build()) options.states_max = 4'000;
  const broker_interleaving_result all = explore(options);
  BOOST_TEST(all.violation == "", all.violation << "\n" << all.story);
  BOOST_TEST((all.complete || is_slow_build()), "not all runs were looked at");
  return all.states;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(broker_exhaustive)

BOOST_AUTO_TEST_CASE(two_processes_never_believe_in_one_slot) {
  const std::uint64_t calm = explored({.acquires = 2, .accidents = 0});
  const std::uint64_t accident = explored({.acquires = 1, .accidents = 1, .operators = true});
  const std::uint64_t dirty = explored({.acquires = 1, .accidents = 1, .operators = true, .begins_clean = false});
  print_figures({{"without_accidents", calm}, {"one_accident", accident}, {"one_accident_without_token", dirty}});
}

/// A search that finds nothing proves nothing, unless it finds bugs that are there.
BOOST_AUTO_TEST_CASE(seeded_bugs_are_found) {
  boost::json::object states;
  for (const broker_bug bug :
       {broker_bug::lease_from_the_answer, broker_bug::wait_from_the_send, broker_bug::token_after_an_unclean_end,
        broker_bug::no_wait, broker_bug::token_while_believing}) {
    broker_interleaving_options options{.acquires = 2, .accidents = 1, .operators = true, .bug = bug};
    options.states_max = is_slow_build() ? 6'000 : 400'000;
    const broker_interleaving_result found = explore(options);
    if (is_slow_build() && found.violation.empty()) continue;
    BOOST_TEST(!found.violation.empty(), to_string(bug) << " was not found in " << found.states << " states");
    BOOST_TEST_MESSAGE(to_string(bug) << ": " << found.states << " states\n" << found.story);
    states[to_string(bug)] = found.states;
  }
  if (!is_slow_build()) print_figures(states);
}

BOOST_AUTO_TEST_SUITE_END()

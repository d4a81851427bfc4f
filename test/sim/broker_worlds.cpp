// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "sim/support/broker_world.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;

namespace {

std::uint64_t broker_number(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

boost::json::object broker_figures(std::uint64_t first, std::uint64_t count, const broker_world_result& sum) {
  return {{"first", first},       {"worlds", count},      {"steps", sum.steps},   {"requests", sum.requests},
          {"grants", sum.grants}, {"losses", sum.losses}, {"faults", sum.faults}, {"trace", sum.trace}};
}

std::string broker_story_of(std::uint64_t seed) {
  std::ostringstream story;
  run_broker_world(broker_world_options::of(seed), broker_bug::none, &story);
  return story.str();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(broker_worlds)

/// HOLDFAST_SEED=n runs one world and prints what happened. HOLDFAST_WORLDS=n runs that many worlds, from the seed
/// HOLDFAST_FIRST_WORLD on.
BOOST_AUTO_TEST_CASE(no_promise_is_broken) {
  const bool replay = std::getenv("HOLDFAST_SEED") != nullptr;
  const std::uint64_t first = broker_number("HOLDFAST_SEED", broker_number("HOLDFAST_FIRST_WORLD", 1));
  const std::uint64_t count = replay ? 1 : broker_number("HOLDFAST_WORLDS", is_slow_build() ? 60 : 1500);
  broker_world_result sum;
  for (std::uint64_t seed = first; seed != first + count; ++seed) {
    sum.add(run_broker_world(broker_world_options::of(seed)));
    if (!sum.broken) continue;
    print_figures(broker_figures(first, seed - first + 1, sum));
    BOOST_FAIL("world " << seed << ": " << sum.violation << "\n" << broker_story_of(seed));
  }
  print_figures(broker_figures(first, count, sum));
  if (replay) {
    BOOST_TEST_MESSAGE(broker_story_of(first));
    return;
  }
  // A run in which little happens would prove nothing.
  BOOST_TEST(sum.grants > 100 * count);
  BOOST_TEST(sum.losses > 2 * count);
  BOOST_TEST(sum.faults > 10 * count);
}

/// A check that has never failed proves nothing. Each bug must be found in worlds that pass without it, and the first
/// violation must be one of the promises that the bug breaks.
BOOST_AUTO_TEST_CASE(every_seeded_bug_is_found_by_what_it_breaks) {
  constexpr std::uint64_t most = 1000;
  const std::uint64_t worlds = is_slow_build() ? 16 : most;
  boost::json::object steps, found_by, seeds;
  for (const broker_bug_info& each : broker_bugs) {
    broker_world_result sum;
    std::uint64_t seed = 0;
    while (!sum.broken && seed != worlds) sum.add(run_broker_world(broker_world_options::of(++seed), each.bug));
    if (is_slow_build() && !sum.broken) continue;
    BOOST_TEST((sum.broken && std::count(each.breaks.begin(), each.breaks.end(), *sum.broken) != 0),
               each.name << " was not found by what it breaks, but in " << sum.steps
                         << " steps: " << (sum.broken ? sum.violation : "nothing"));
    BOOST_TEST_MESSAGE(each.name << ": seed " << seed << ", " << sum.steps << " steps: " << sum.violation);
    if (!sum.broken) continue;
    steps[each.name] = sum.steps;
    seeds[each.name] = seed;
    found_by[each.name] = sum.violation.substr(0, sum.violation.find(' '));
  }
  if (!is_slow_build())
    print_figures({{"bugs", steps.size()}, {"steps", steps}, {"seeds", seeds}, {"found_by", found_by}});
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_world) {
  for (std::uint64_t seed = 1; seed != 5; ++seed) {
    const std::string once = broker_story_of(seed);
    BOOST_TEST(once.size() > 1000u);
    BOOST_TEST((once == broker_story_of(seed)), "world " << seed << " went another way");  // too long to be shown
  }
}

BOOST_AUTO_TEST_SUITE_END()

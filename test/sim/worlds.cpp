// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "sim/support/world.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

/// Runs the world once more and writes down what happened: `world-<seed>.txt` and `.svg`, or `mutex-`, `election-`,
/// `set-`.
std::string documented(const world_options& options, seeded_bug bug = seeded_bug::none) {
  const char* const folder = std::getenv("HOLDFAST_PICTURES");
  const std::string kind = options.election     ? "election-"
                           : options.locks != 0 ? "set-"
                           : options.mutex      ? "mutex-"
                                                : "world-";
  const std::filesystem::path base =
      std::filesystem::path(folder ? folder : ".") / (kind + std::to_string(options.seed));
  std::ofstream story(base.string() + ".txt"), picture(base.string() + ".svg");
  timeline who("world " + std::to_string(options.seed) + ": who held what when, limit " +
               std::to_string(options.limit));
  run_world(options, bug, {&story, &who});
  picture << who.svg();
  return base.string() + ".svg and .txt tell what happened";
}

boost::json::object figures_of(std::uint64_t first, std::uint64_t count, const world_result& sum, bool election) {
  boost::json::object all{{"first", first},       {"worlds", count},          {"steps", sum.steps},
                          {"events", sum.events}, {"requests", sum.requests}, {"grants", sum.grants},
                          {"losses", sum.losses}, {"faults", sum.faults},     {"trace", sum.trace}};
  if (!election) return all;
  all.insert({{"terms", sum.grants}, {"proclaims", sum.proclaims}, {"news", sum.news}});
  return all;
}

/// HOLDFAST_SEED=n runs one world and writes down what happened. HOLDFAST_WORLDS=n runs that many worlds, from the seed
/// HOLDFAST_FIRST_WORLD on.
void check_worlds(const world_kind& worlds) {
  const bool replay = std::getenv("HOLDFAST_SEED") != nullptr;
  const std::uint64_t first = from_environment("HOLDFAST_SEED", from_environment("HOLDFAST_FIRST_WORLD", 1));
  // A build with a sanitizer is slow, so it runs fewer worlds.
  const std::uint64_t slowness = std::max<std::uint64_t>(from_environment("HOLDFAST_TEST_DEADLINE_SCALE", 1), 1);
  const std::uint64_t count = replay ? 1 : from_environment("HOLDFAST_WORLDS", worlds.usual / slowness / slowness);
  world_result sum;
  for (std::uint64_t seed = first; seed != first + count; ++seed) {
    const world_options options = worlds.of(seed);
    const world_result result = run_world(options);
    sum.add(result);
    if (!result.violation.empty()) {  // a check would make its message each time, and that runs the world again
      print_figures(figures_of(first, seed - first + 1, sum, options.election));
      BOOST_FAIL("world " << seed << ": " << result.violation << "; " << documented(options));
    }
    if (seed % 10'000 == 0) std::cerr << seed << " worlds, " << sum.steps << " steps" << std::endl;
  }
  print_figures(figures_of(first, count, sum, worlds.of(first).election));
  if (replay) {
    const std::string where = documented(worlds.of(first));
    BOOST_TEST_MESSAGE(where);
    return;
  }
  // A run in which little happens would prove nothing.
  BOOST_TEST(sum.grants > 30 * count);
  BOOST_TEST(sum.losses > count / 10);
  BOOST_TEST(sum.faults > 2 * count);
  if (!worlds.of(first).election) return;
  BOOST_TEST(sum.proclaims > 20 * count);
  BOOST_TEST(sum.news > 60 * count);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worlds)

BOOST_AUTO_TEST_CASE(no_guarantee_is_broken) { check_worlds(worlds_of_a_semaphore); }

BOOST_AUTO_TEST_CASE(no_guarantee_is_broken_with_a_mutex) { check_worlds(worlds_of_a_mutex); }

BOOST_AUTO_TEST_CASE(no_guarantee_is_broken_with_an_election) { check_worlds(worlds_of_an_election); }

BOOST_AUTO_TEST_CASE(no_guarantee_is_broken_with_a_mutex_set) { check_worlds(worlds_of_a_set); }

/// About 17,000 renewals of one slot, on clocks that are two percent too fast or too slow.
BOOST_AUTO_TEST_CASE(a_long_day_loses_no_slot) {
  world_result sum;
  constexpr std::uint64_t days = 8;
  for (std::uint64_t seed = 1; seed <= days; ++seed) {
    const auto options = world_options::a_long_day(seed);
    const world_result result = run_world(options);
    BOOST_TEST(result.violation.empty(), "seed " << seed << ": " << result.violation);
    BOOST_TEST(result.losses == 0u);
    BOOST_TEST(result.requests > 17'000u);
    sum.add(result);
  }
  print_figures(figures_of(1, days, sum, false));
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_world) {
  for (const auto of :
       {world_options::of, world_options::of_a_mutex, world_options::of_an_election, world_options::of_a_set})
    for (std::uint64_t seed = 1; seed != 5; ++seed) {
      std::ostringstream once, again;
      const world_result lived = run_world(of(seed), seeded_bug::none, {&once});
      run_world(of(seed), seeded_bug::none, {&again});
      const std::string story = once.str();
      BOOST_TEST(static_cast<std::size_t>(std::count(story.begin(), story.end(), '\n')) > lived.steps / 2);
      BOOST_TEST((story == again.str()), "world " << seed << " went another way");  // too long to be shown
    }
}

BOOST_AUTO_TEST_SUITE_END()

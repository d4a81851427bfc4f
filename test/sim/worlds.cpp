#include "sim/support/world.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>

using namespace holdfast::test;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(worlds)

/// HOLDFAST_SEED=n replays one world and tells its story; HOLDFAST_WORLDS=n runs so many.
BOOST_AUTO_TEST_CASE(nothing_goes_wrong_in_many_worlds) {
  const bool replay = std::getenv("HOLDFAST_SEED") != nullptr;
  const std::uint64_t first = from_environment("HOLDFAST_SEED", 1);
  // A sanitizer's build has less time for each.
  const std::uint64_t usual = 1000 / from_environment("HOLDFAST_TEST_DEADLINE_SCALE", 1);
  const std::uint64_t count = replay ? 1 : from_environment("HOLDFAST_WORLDS", usual);
  world_result sum;
  for (std::uint64_t seed = first; seed != first + count; ++seed) {
    const world_result result = run_world(seed, seeded_bug::none, replay);
    BOOST_REQUIRE_MESSAGE(result.violation.empty(), result.violation << " (replay with HOLDFAST_SEED=" << seed << ")");
    sum.steps += result.steps;
    sum.grants += result.grants;
    sum.losses += result.losses;
    sum.faults += result.faults;
  }
  BOOST_TEST_MESSAGE(count << " worlds: " << sum.steps << " steps, " << sum.grants << " grants, " << sum.losses
                           << " losses, " << sum.faults << " faults");
  if (replay) return;
  // Worlds in which nothing happens would prove nothing.
  BOOST_TEST(sum.grants > 30 * count);
  BOOST_TEST(sum.losses > count / 10);
  BOOST_TEST(sum.faults > 2 * count);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_world) {
  for (std::uint64_t seed = 1; seed != 5; ++seed) {
    const world_result a = run_world(seed), b = run_world(seed);
    BOOST_TEST(a.steps == b.steps);
    BOOST_TEST(a.grants == b.grants);
    BOOST_TEST(a.faults == b.faults);
  }
}

/// A check that has never failed proves nothing.
BOOST_AUTO_TEST_CASE(every_seeded_bug_is_found) {
  constexpr std::uint64_t worlds_max = 400;
  for (const seeded_bug bug : seeded_bugs) {
    std::string found;
    std::uint64_t seed = 0;
    while (found.empty() && seed != worlds_max) found = run_world(++seed, bug).violation;
    BOOST_TEST(!found.empty(), to_string(bug) << " was not found in " << seed << " worlds");
    BOOST_TEST_MESSAGE(to_string(bug) << ": world " << seed << ": " << found);
  }
}

BOOST_AUTO_TEST_SUITE_END()

#include <boost/test/unit_test.hpp>
#include <string>

#include "sim/support/figures.hpp"
#include "sim/support/world.hpp"

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(seeded_bugs)

/// A check that has never failed proves nothing.
BOOST_AUTO_TEST_CASE(every_one_is_found) {
  constexpr std::uint64_t steps_max = 2'000'000;
  boost::json::object steps, found_by;
  std::uint64_t soon = 0, most = 0;
  std::string_view slowest;
  for (const seeded_bug_info& each : holdfast::test::seeded_bugs) {
    world_result sum;
    std::string found;
    std::uint64_t seed = 0;
    while (found.empty() && sum.steps < steps_max) {
      const world_result result = run_world(each.of(++seed), each.bug);
      found = result.violation;
      sum.add(result);
    }
    BOOST_TEST(!found.empty(), each.name << " (" << each.what << ") was not found in " << sum.steps << " steps");
    BOOST_TEST_MESSAGE(each.name << ": " << sum.steps << " steps: " << found);
    steps[each.name] = sum.steps;
    found_by[each.name] = found.substr(0, found.find(' '));
    soon += sum.steps <= 10'000;
    if (sum.steps > most) most = sum.steps, slowest = each.name;
  }
  print_figures({{"bugs", steps.size()},
                 {"within_10000_steps", soon},
                 {"slowest", slowest},
                 {"steps_of_slowest", most},
                 {"steps", steps},
                 {"found_by", found_by}});
}

BOOST_AUTO_TEST_SUITE_END()

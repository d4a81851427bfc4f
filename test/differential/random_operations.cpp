// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The model and a real agent do the same random operations, and must answer the same.
//
//   HOLDFAST_DIFFERENTIAL_OPERATIONS: how many at least (20,000); HOLDFAST_DIFFERENTIAL_SEED: of the first sequence (1)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "differential/support/differential.hpp"
#include "support/agent.hpp"
#include "support/figures.hpp"
#include "testing/defect.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t sequence_length = 70;

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

agent& roomy_agent() {
  static agent one({.http_max_conns_per_client = 0});
  return one;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;
using holdfast::testing::defect;

BOOST_AUTO_TEST_SUITE(random_operations)

BOOST_AUTO_TEST_CASE(model_and_agent_agree) {
  const std::uint64_t wanted = from_environment("HOLDFAST_DIFFERENTIAL_OPERATIONS", 20'000);
  std::uint64_t seed = from_environment("HOLDFAST_DIFFERENTIAL_SEED", 1);
  const std::uint64_t first = seed;
  comparison both(roomy_agent());
  std::uint64_t told = 0;
  for (; both.operations() < wanted; ++seed) {
    const auto sequence = random_sequence(seed, sequence_length);
    const std::string why = both.run(sequence);
    if (!why.empty()) {
      std::cout << "seed " << seed << ": " << why << std::flush;
      const auto [shortest, then] = both.shrink(sequence);
      BOOST_FAIL("seed " << seed << ", shrunk to " << shortest.size() << " steps:\n" << to_string(shortest) << then);
    }
    if (both.operations() - told >= 50'000) {
      told = both.operations();
      std::cout << told << " of " << wanted << " operations" << std::endl;
    }
  }
  std::cout << "differential: " << both.operations() << " operations in " << seed - first << " sequences, "
            << both.wakes() << " wake-ups compared\n";
  print_figures({{"operations", both.operations()}, {"sequences", seed - first}, {"wakes", both.wakes()}});
  BOOST_TEST(both.wakes() > both.operations() / 100);
}

BOOST_AUTO_TEST_CASE(every_seeded_defect_is_found) {
  constexpr std::uint64_t sequences_max = 40;
  comparison both(roomy_agent());
  std::vector<std::size_t> sizes;
  for (const defect which : holdfast::testing::defects) {
    if (which == defect::none) continue;
    std::uint64_t seed = 1;
    std::string why;
    while (why.empty() && seed <= sequences_max)
      why = both.run(random_sequence(seed++, sequence_length), which);
    BOOST_TEST(!why.empty(), to_string(which) << " was not found in " << sequences_max << " sequences");
    if (why.empty()) continue;
    const auto [shortest, then] = both.shrink(random_sequence(seed - 1, sequence_length), which);
    std::cout << to_string(which) << ": found in sequence " << seed - 1 << ", shrunk to "
              << shortest.size() << " steps" << std::endl;
    BOOST_TEST(both.run(shortest) == "");  // it is the defect that was found
    sizes.push_back(shortest.size());
  }
  // Most are shrunk to a size that a reader understands at once.
  std::sort(sizes.begin(), sizes.end());
  BOOST_TEST(sizes[sizes.size() / 2] <= 4u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Invariants of the core. Tests evaluate them in every type of build, even where NDEBUG is set.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "protocol/base/invariant.hpp"
#include "protocol/base/transitions.hpp"
#include "support/async.hpp"
#include "support/process.hpp"

using namespace std::chrono_literals;
using holdfast::protocol::broken_invariant;
using holdfast::protocol::check_invariant;

namespace {

enum class light { off, on, broken };
constexpr holdfast::protocol::transition<light> light_transitions[] = {
    {holdfast::protocol::outside, light::off},
    {light::off, light::on},
    {light::on, light::off},
    {light::on, light::broken},
    {light::broken, holdfast::protocol::outside},
};

int violations = 0;

/// The number of invariants that the call violates.
template <class Call>
int violations_of(Call call) {
  violations = 0;
  const auto before = broken_invariant.exchange([](const char*) { ++violations; });
  call();
  broken_invariant = before;
  return violations;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(invariants)

BOOST_AUTO_TEST_CASE(one_that_is_broken_ends_a_test_program) {
  const auto victim =
      holdfast::test::run({holdfast::test::sibling_program("victims"), "--run_test=invariants/tickets_go_backwards"},
                          holdfast::test::scaled(20s));
  BOOST_REQUIRE(victim.status.has_value());
  BOOST_TEST(!victim.status->success());
  BOOST_TEST(victim.output.find("broken invariant: tickets grow") != std::string::npos, victim.output);
}

BOOST_AUTO_TEST_CASE(one_that_holds_is_not_told) {
  bool looked = false;
  check_invariant("true", [&] { return looked = true; });
  BOOST_TEST(looked);
}

BOOST_AUTO_TEST_CASE(without_anybody_to_tell_none_is_looked_at) {
  const auto before = broken_invariant.exchange(nullptr);
  bool looked = false;
  check_invariant("false", [&] { return looked = true, false; });
  broken_invariant = before;
  BOOST_TEST(!looked);
}

BOOST_AUTO_TEST_CASE(a_state_changes_only_as_its_table_allows) {
  holdfast::protocol::guarded_state<light, light_transitions> state;
  BOOST_TEST((state == light::off));
  BOOST_TEST(violations_of([&] { state.go_to(light::off); }) == 0);  // this is no change
  BOOST_TEST(violations_of([&] { state.go_to(light::on); }) == 0);
  BOOST_TEST(violations_of([&] { state.end(); }) == 1);
  BOOST_TEST(violations_of([&] { state.go_to(light::broken); }) == 0);
  BOOST_TEST(violations_of([&] { state.end(); }) == 0);
  BOOST_TEST(violations_of([&] { state.go_to(light::on); }) == 1);
  BOOST_TEST((state == light::on));  // in production the change happens, too
}

BOOST_AUTO_TEST_SUITE_END()

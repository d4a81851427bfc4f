// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Numbered slots under faults for which semaphores have suites of their own. No two holders have the same number.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(numbered_slots)

BOOST_AUTO_TEST_CASE(the_agent_of_two_holders_is_frozen) {
  cluster consul(1);
  stage play("numbered-frozen-agent", 2);
  check_that_a_frozen_agent_holds_nothing(
      play, consul, {.numbered = true},
      [&](const std::string& who, stage::time_point since) { play.until_entered({who}, since, grant_bound, 2); });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_the_leader_and_of_a_holder) {
  cluster consul(2);
  stage play("numbered-kill", 2);
  start_one_at_each_agent(play, consul, 2, nullptr, {.numbered = true});
  play.until_entered(play.names(), {}, grant_bound);
  check_that_work_goes_on_without_the_leader(play, consul);
  const std::string holder =
      play.until_written("somebody holds", grant_bound,
                         [](const journal_entry& each) { return each.what == journal_event::enter; })
          .who;
  const auto since = play.fault(holder + " is killed");
  play.kill(holder);
  play.until_entered(play.names(), since, grant_bound);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

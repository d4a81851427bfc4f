// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A mutex under faults for which semaphores have suites of their own.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(mutexes)

BOOST_AUTO_TEST_CASE(the_holders_agent_is_frozen) {
  cluster consul(1);
  stage play("mutex-frozen-agent", 1);
  check_that_a_frozen_agent_holds_nothing(
      play, consul, {.coroutines = 1, .mutex = true},
      [&](const std::string& who, stage::time_point since) { play.until_entered({who}, since, grant_bound); });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_the_leader_and_of_a_client_agent) {
  cluster consul(2);
  stage play("mutex-kill", 1);
  start_one_at_each_agent(play, consul, 2, nullptr, {.mutex = true});
  play.until_entered(play.names(), {}, grant_bound);
  check_that_work_goes_on_without_the_leader(play, consul);
  agent& client = consul.client(0);
  check_that_work_goes_on(play, consul,
                          {at_client(0), "client agent killed", "client agent restarted", [&] { client.kill(); },
                           [&] { client.restart(); }});
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

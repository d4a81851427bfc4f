// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The leader is killed or frozen, while five processes at all agents of the cluster hand two slots around.

#include <boost/test/unit_test.hpp>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(leader_kill)

BOOST_AUTO_TEST_CASE(kill_9_of_the_leader_and_its_return) {
  cluster consul(2);
  stage play("leader-kill", 2);
  start_one_at_each_agent(play, consul, 2);
  play.until_entered(play.names(), {}, grant_bound);
  for (int round = 0; round != 2; ++round) {
    check_that_work_goes_on_without_the_leader(play, consul);
  }
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_CASE(a_leader_that_stands_still_for_an_election) {
  cluster consul(2);
  stage play("leader-frozen", 2);
  start_one_at_each_agent(play, consul, 2);
  play.until_entered(play.names(), {}, grant_bound);
  const int its = consul.leader();
  agent& leader = consul.server(its);
  check_that_work_goes_on(
      play, consul,
      {at_server(its), "leader frozen", "leader goes on", [&] { leader.freeze(); }, [&] { leader.thaw(); }});
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

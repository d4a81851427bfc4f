// The leader dies, or stands still, while five processes at all agents of the cluster hand two slots around.

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

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
    const int leader = consul.leader();
    const std::string its = at_server(leader);
    const auto since = play.fault("leader killed", {its});
    consul.server(leader).kill();
    play.until_entered(all_but(play, its), since, grant_bound);
    consul.server(leader).restart();
    consul.wait_until_healthy();
    const auto restarted = play.mended("leader restarted", {its});
    play.until_entered(play.names(), restarted, grant_bound);
  }
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_CASE(a_leader_that_stands_still_for_an_election) {
  cluster consul(2);
  stage play("leader-frozen", 2);
  start_one_at_each_agent(play, consul, 2);
  play.until_entered(play.names(), {}, grant_bound);
  const int leader = consul.leader();
  const std::string its = at_server(leader);
  const auto since = play.fault("leader frozen", {its});
  consul.server(leader).freeze();
  play.until_entered(all_but(play, its), since, grant_bound);
  consul.server(leader).thaw();
  consul.wait_until_healthy();
  const auto thawed = play.mended("leader goes on", {its});
  play.until_entered(play.names(), thawed, grant_bound);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

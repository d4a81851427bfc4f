// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Planned and unplanned restarts: every server is restarted in turn, and a follower and a client agent are killed.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

namespace holdfast::test {
namespace {

int a_follower(const cluster& consul) { return (consul.leader() + 1) % cluster::server_count; }

void check_kill_and_restart(stage& play, const cluster& consul, agent& victim, const std::string& its,
                            const std::string& words) {
  check_that_work_goes_on(
      play, consul, {its, words + " killed", words + " restarted", [&] { victim.kill(); }, [&] { victim.restart(); }});
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(rolling_restart)

BOOST_AUTO_TEST_CASE(every_server_in_turn) {
  cluster consul(2);
  stage play("rolling-restart", 2);
  start_one_at_each_agent(play, consul, 2);
  play.until_entered(play.names(), {}, grant_bound);
  for (int i = 0; i != cluster::server_count; ++i) {
    agent& server = consul.server(i);
    const std::string words = "server " + std::to_string(i + 1);
    check_that_work_goes_on(
        play, consul,
        {at_server(i), words + " stopped", words + " restarted", [&] { server.stop(); }, [&] { server.restart(); }});
  }
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_a_follower_and_of_a_client_agent) {
  cluster consul(2);
  stage play("follower-and-client-kill", 2);
  start_one_at_each_agent(play, consul, 2);
  play.until_entered(play.names(), {}, grant_bound);
  const int follower = a_follower(consul);
  check_kill_and_restart(play, consul, consul.server(follower), at_server(follower), "follower");
  check_kill_and_restart(play, consul, consul.client(0), at_client(0), "client agent");
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_a_holder_frees_its_slots) {
  cluster consul(1);
  stage play("holder-kill", 2);
  play.start("holder", worker_options{.agent = consul.client(0).address(), .hold = std::chrono::hours(1)});
  play.until_entered({"holder"}, {}, grant_bound, 2);
  play.start("waiter", worker_options{.agent = consul.client(0).address()});
  play.until_written("it waits", grant_bound, [](const journal_entry& each) {
    return each.who == "waiter" && each.what == journal_event::asked && each.slot == 1;
  });
  play.kill("holder");
  const auto since = play.fault("holder killed");
  play.until_entered({"waiter"}, since, grant_bound, 2);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

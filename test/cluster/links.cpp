// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Links that are bad but not cut: lost frames, a bottleneck, an agent that is far away.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <holdfast/testing/proxy.hpp>
#include <string>
#include <vector>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/network.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

constexpr int linked_hosts = cluster::server_count + 2;
/// The number of turns of each process while the link is bad. They take some seconds and hundreds of requests.
constexpr std::size_t turns = 20;
/// No speed is promised on a bad link, only progress.
constexpr auto turns_within = 60s;

void bad_link(const std::string& words, const std::function<void(network&, int leader)>& make_bad) {
  network net(linked_hosts);
  cluster consul(2, &net);
  stage play(words, 2);
  start_one_at_each_agent(play, consul, 2, &net);
  play.until_entered(play.names(), {}, grant_bound);
  const auto since = play.fault(words);
  make_bad(net, consul.leader() + 1);
  play.until_entered(play.names(), since, turns_within, turns);
  net.mend();
  consul.wait_until_healthy();
  const auto mended = play.mended("good links again");
  play.until_entered(play.names(), mended, grant_bound);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(links)

BOOST_AUTO_TEST_CASE(a_client_agent_loses_a_fifth_of_its_frames) {
  bad_link("lossy-client", [](network& net, int) { net.lose(4, 20); });
}

BOOST_AUTO_TEST_CASE(the_leader_loses_one_frame_in_twenty) {
  bad_link("lossy-leader", [](network& net, int leader) { net.lose(leader, 5); });
}

BOOST_AUTO_TEST_CASE(a_client_agent_behind_a_bottleneck) {
  bad_link("narrow-client", [](network& net, int) { net.narrow(4, "64kbit"); });
}

BOOST_AUTO_TEST_CASE(an_agent_that_answers_late) {
  cluster consul(1);
  stage play("slow-agent", 2);
  holdfast::testing::proxy slow(consul.client(0).address());
  play.start("slow", worker_options{.agent = slow.address()});
  play.start("near", worker_options{.agent = consul.server(0).address()});
  play.until_entered(play.names(), {}, grant_bound);
  const auto since = play.fault("each request 250 ms late");
  holdfast::testing::fault_rule late;
  late.what = holdfast::testing::fault::delay(250ms);
  late.times = 0;
  slow.set_faults(holdfast::testing::fault_plan({late}));
  play.until_entered(play.names(), since, turns_within, turns);
  slow.set_faults({});
  const auto mended = play.mended("no longer late");
  play.until_entered(play.names(), mended, grant_bound);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
}

/// There is a slot for each process. So the record changes with each turn of the near processes, faster than the
/// distant process can write it.
BOOST_AUTO_TEST_CASE(one_process_is_far_away_and_seven_are_near) {
  constexpr int near = 7;
  cluster consul(1);
  stage play("distant-process", near + 1);
  holdfast::testing::proxy distance(consul.client(0).address());
  holdfast::testing::fault_rule late;
  late.what = holdfast::testing::fault::delay(50ms);
  late.times = 0;
  distance.set_faults(holdfast::testing::fault_plan({late}));
  play.start("far", worker_options{.agent = distance.address(), .hold = 1ms});
  for (int i = 0; i != near; ++i)
    play.start("near-" + std::to_string(i + 1),
               worker_options{.agent = consul.server(i % cluster::server_count).address(), .hold = 1ms});
  play.until_entered(play.names(), {}, grant_bound);
  const auto all_work = play.mended("all work");
  play.until_entered(play.names(), all_work, turns_within, 5 * turns);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max <= 8u);
  BOOST_TEST(shown.lost == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

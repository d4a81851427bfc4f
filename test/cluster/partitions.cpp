// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Hosts that are cut off from the rest, with the holders and waiters on them. Each host is a network namespace.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/network.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(partitions)

BOOST_AUTO_TEST_CASE(the_holders_are_cut_off_with_their_agent) {
  network net(cluster::server_count + 2);
  cluster consul(2, &net);
  stage play("holders-cut-off", 2);
  worker_options holders{.agent = consul.client(0).address(), .coroutines = 2, .hold = 1h};
  holders.outage_grace = 1h;
  holders.launcher = net.inside(4);
  play.start("holders", holders);
  play.until_entered({"holders"}, {}, grant_bound, 2);
  worker_options waiters{.agent = consul.client(1).address(), .coroutines = 2, .hold = 200ms};
  waiters.launcher = net.inside(5);
  play.start("waiters", waiters);
  play.until_written("they wait", grant_bound, [](const journal_entry& each) {
    return each.who == "waiters" && each.what == journal_event::asked && each.slot == 1;
  });
  const auto since = play.fault("holders cut off", {"holders"});
  net.cut(4);
  play.until_entered({"waiters"}, since, grant_bound, 2);
  net.mend();
  consul.wait_until_healthy();
  play.mended("holders reachable again", {"holders"});
  play.until_entered({"holders"}, since, grant_bound);  // maybe before the cluster was healthy
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
  BOOST_TEST(shown.lost >= 2u);
}

BOOST_AUTO_TEST_SUITE_END()

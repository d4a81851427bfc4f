// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The case that other clients get wrong: holders behind a client agent that is frozen, and waiters at a server. It runs
// on three servers, and is judged by the journal of the processes themselves.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"
#include "support/participant.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(frozen_agent)

BOOST_AUTO_TEST_CASE(two_holders_behind_it_and_two_waiters_are_never_more_than_two_believers) {
  cluster consul(1);
  stage play("frozen-agent", 2);
  agent& frozen = consul.client(0);
  worker_options holders{.agent = frozen.address(), .coroutines = 2, .hold = 1h};
  holders.outage_grace = 1h;  // holders keep their slots for as long as they may, up to the lease: the hardest case
  play.start("holders", holders);
  play.until_entered({"holders"}, {}, grant_bound, 2);
  const worker_options waiters{.agent = consul.server(consul.leader()).address(), .coroutines = 1, .hold = 1h};
  play.start("waiter-1", waiters);
  play.start("waiter-2", waiters);
  play.until("all wait in Consul", grant_bound,
             [&] { return contenders(consul.server(0), play.prefix()).size() == 4; });

  const auto since = play.fault("the client agent is frozen", {"holders"});
  frozen.freeze();
  play.until_entered({"waiter-1", "waiter-2"}, since, grant_bound);
  // The requests that the agent has delayed arrive late, and revive no slot.
  frozen.thaw();
  consul.wait_until_healthy();
  play.mended("the client agent goes on", {"holders"});
  play.until_written("the holders have been told", grant_bound, [&](const journal_entry& each) {
    return each.who == "holders" && each.what == journal_event::lost && each.slot == 1;
  });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 2u);
  BOOST_TEST(shown.lost == 2u);
  BOOST_TEST(shown.entered == 4u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The short tests with Consul's own defaults: see shipped.hpp.

#include "cluster/support/shipped.hpp"

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(as_shipped)

BOOST_AUTO_TEST_CASE(restarts_of_a_client_agent_cost_no_slot) {
  scene s("agent-restarts", 1);
  agent& restarted = s.consul.client(0);
  s.begin(restarted, s.consul.server(0));
  for (int i = 0; i != 2; ++i) {
    s.fault("the holder's agent is stopped");
    const std::size_t before = s.deregistered(restarted);
    restarted.stop();
    s.until_deregistered(restarted, before + 1);
    restarted.restart();
    s.until_registered(restarted);
    s.mended("it is back");
  }
  s.check_end(true);
}

/// A TTL of 30 s is longer than any election.
BOOST_AUTO_TEST_CASE(an_election_costs_no_slot) {
  scene s("leader-kill", 0, 30s);
  s.lose_the_leader();
  s.check_end(true);
}

BOOST_AUTO_TEST_SUITE_END()

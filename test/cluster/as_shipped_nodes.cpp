// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Nodes that are removed while their holders believe, with Consul's own defaults: see shipped.hpp.

#include "cluster/support/shipped.hpp"

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(as_shipped_nodes)

/// Autopilot removes the frozen server after some ten seconds, and its node, too.
BOOST_AUTO_TEST_CASE(a_follower_that_is_frozen_is_removed_while_its_holder_believes) {
  for (const auto ttl : {15s, 30s}) {
    scene s("frozen-follower", 0, ttl);
    const int leads = s.consul.leader();
    agent& frozen = s.consul.server((leads + 1) % cluster::server_count);
    s.begin(frozen, s.consul.server(leads));
    const auto since = s.fault("the holder's server is frozen", {"holder"});
    frozen.freeze();
    s.until_deregistered(frozen);
    s.until_handed_over(since);
    frozen.thaw();
    s.check_end_when_told();
  }
}

BOOST_AUTO_TEST_CASE(a_client_agent_that_is_frozen_is_made_to_leave_while_its_holder_believes) {
  scene s("frozen-agent-force-left", 1);
  agent& leader = s.consul.server(s.consul.leader());
  agent& frozen = s.consul.client(0);
  s.begin(frozen, leader);
  const auto since = s.fault("the holder's agent is frozen, and made to leave", {"holder"});
  frozen.freeze();
  s.until("it has failed", [&] {
    leader.put("/v1/agent/force-leave/" + frozen.node_name());
    return s.deregistered(frozen) != 0;
  });
  s.until_handed_over(since);
  frozen.thaw();
  s.check_end_when_told();
}

/// The agent leaves the cluster, and removes its node from the catalog, while its holder cannot be notified.
BOOST_AUTO_TEST_CASE(a_client_agent_leaves_while_its_holder_is_busy) {
  for (const auto ttl : {15s, 30s}) {
    scene s("busy-holder", 1, ttl);
    agent& leader = s.consul.server(s.consul.leader());
    agent& leaves = s.consul.client(0);
    s.begin(leaves, leader);
    const auto since = s.fault("the holder is busy, and its agent leaves", {"holder"});
    s.freeze_holders();
    leaves.stop();
    s.until_deregistered(leaves);
    s.until_handed_over(since);
    s.thaw_holders();
    leaves.restart();
    s.check_end_when_told();
  }
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Faults of a whole cluster with Consul's own defaults: see shipped.hpp.

#include <chrono>
#include <thread>

#include "cluster/support/shipped.hpp"

using namespace holdfast::test;

namespace {

// Requests without a token may do everything, so that agents need none. A token that exists no more is still refused.
constexpr auto with_tokens = R"({"primary_datacenter": "dc1", "acl": {"enabled": true, "default_policy": "allow",
  "tokens": {"master": "a0b1c2d3-0000-4000-8000-000000000001"}}})";
constexpr auto masters_token = "a0b1c2d3-0000-4000-8000-000000000001";
constexpr auto holders_token = "a0b1c2d3-0000-4000-8000-000000000002";

}  // namespace

BOOST_AUTO_TEST_SUITE(as_shipped_cluster)

/// An election may take longer than this lease. Then the slot is lost, and is not granted before the lease is over.
BOOST_AUTO_TEST_CASE(a_leader_is_killed_while_leases_are_short) {
  scene s("leader-kill", 0);
  s.lose_the_leader();
  s.check_end(false);
}

BOOST_AUTO_TEST_CASE(all_agents_and_all_servers_are_restarted_one_after_the_other) {
  scene s("rolling-restart", 2, 30s);
  s.begin(s.consul.client(0), s.consul.client(1));
  std::vector<agent*> all{&s.consul.client(0), &s.consul.client(1)};
  for (int i = 0; i != cluster::server_count; ++i) all.push_back(&s.consul.server(i));
  for (agent* const each : all) {
    s.fault("an agent is stopped: " + each->node_name());
    each->stop();
    each->restart();
    s.consul.wait_until_healthy();
    s.mended("it is back");
  }
  s.check_end(true);
}

BOOST_AUTO_TEST_CASE(a_snapshot_of_a_minute_ago_is_restored) {
  scene s("snapshot-restored", 1);
  s.begin(s.consul.client(0), s.consul.server(0));
  const auto saved = s.consul.server(0).get("/v1/snapshot");
  BOOST_REQUIRE(saved.status == 200);
  s.fault("a snapshot is restored");
  BOOST_TEST(s.consul.server(0).put("/v1/snapshot", saved.body).status == 200);
  s.until_the_holder_has_renewed(s.mended("it is restored"));
  s.check_end(true);
}

/// Without a quorum no slot can be granted. When the quorum is back, a holder whose lease is over has lost its slot,
/// and waits for it.
BOOST_AUTO_TEST_CASE(two_servers_of_three_are_gone_for_half_a_minute) {
  scene s("quorum-lost", 1);
  const int leads = s.consul.leader();
  s.begin(s.consul.client(0), s.consul.server(leads));
  const auto since = s.fault("two servers are killed");
  agent& one = s.consul.server((leads + 1) % cluster::server_count);
  agent& other = s.consul.server((leads + 2) % cluster::server_count);
  one.kill();
  other.kill();
  s.until_holders_were_told();
  one.restart();
  other.restart();
  s.consul.wait_until_healthy();
  s.mended("they are back", {"holder", "waiter"});
  s.until_somebody_entered(since);
  s.check_end(false);
}

BOOST_AUTO_TEST_CASE(the_holders_token_is_revoked) {
  scene s("token-revoked", 1, 15s, with_tokens);
  const agent& server = s.consul.server(0);
  const std::string as_master = std::string("?token=") + masters_token;
  const std::string token = R"({"AccessorID": "a0b1c2d3-0000-4000-8000-000000000003", "SecretID": ")" +
                            std::string(holders_token) + R"(", "Policies": [{"Name": "global-management"}]})";
  // The server makes no token before it has left its legacy mode, and there is no event for that.
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (server.put("/v1/acl/token" + as_master, token).status != 200) {
    BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, "the server makes no token");
    std::this_thread::sleep_for(50ms);
  }
  s.begin(s.consul.client(0), server, holders_token);
  const auto since = s.fault("the holder's token is revoked", {"holder"});
  BOOST_TEST(server.del("/v1/acl/token/a0b1c2d3-0000-4000-8000-000000000003" + as_master).status == 200);
  s.until_holders_were_told();
  s.until_waiters_entered(since);
  s.check_end(false);
}

BOOST_AUTO_TEST_SUITE_END()

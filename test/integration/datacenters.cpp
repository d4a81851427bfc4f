// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Locks in another datacenter: one client asks an agent of that datacenter, the other one asks an agent of its own
// datacenter, which forwards the requests.

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

namespace json = boost::json;

// The port of the gossip between datacenters. Each agent has an address of its own, so all can use the same port.
constexpr auto wan_port = "8302";
constexpr auto missing_node_text = "Missing node registration";
constexpr auto on_our_node = R"({"Node":"holdfast-sessions","NodeChecks":[],"TTL":"60s"})";

agent_options in_datacenter(const std::string& name) {
  return {.extra_config = R"({"datacenter":")" + name + R"(","ports":{"serf_wan":)" + wan_port + "}}"};
}

/// Two datacenters of one server each. The locks of the tests are in `dc1`.
struct federation {
  agent dc1{in_datacenter("dc1")};
  agent dc2{in_datacenter("dc2")};

  asio::awaitable<void> join() {
    const agent_reply joined = dc2.put("/v1/agent/join/" + dc1.host() + ":" + wan_port + "?wan=1");
    BOOST_REQUIRE(joined.status == 200);
    co_await until("each datacenter knows the other one", [this] { return knows_both(dc1) && knows_both(dc2); });
    co_await until("dc2 forwards to dc1", [this] { return dc2.get("/v1/kv/none?dc=dc1").status == 404; });
  }

private:
  static bool knows_both(const agent& a) {
    const agent_reply known = a.get("/v1/catalog/datacenters");
    return known.status == 200 && json::parse(known.body).as_array().size() == 2;
  }
};

consul::config for_dc1(const agent& through) {
  consul::config c;
  c.address = through.address();
  c.datacenter = "dc1";
  return c;
}

/// A participant of a lock in `dc1`, whichever agent it asks.
struct visitor {
  visitor(const asio::any_io_executor& ex, const agent& through, semaphore_options options)
      : client(ex, for_dc1(through)), sem(client, std::move(options)) {}
  consul::client client;
  semaphore sem;
};

json::value read(const agent& a, const std::string& target) {
  const agent_reply reply = a.get(target);
  BOOST_REQUIRE(reply.status == 200);
  return json::parse(reply.body);
}

/// Returns the number of sessions that belong to the node of holdfast's sessions.
std::size_t sessions_of_the_node(const agent& a) {
  return read(a, "/v1/session/node/" + std::string(default_session_node)).as_array().size();
}

/// Returns true if the datacenter of this agent has the node of holdfast's sessions.
bool has_the_node(const agent& a) {
  return !read(a, "/v1/catalog/node/" + std::string(default_session_node)).is_null();
}

void expect_nothing_in(const agent& a, const std::string& prefix) {
  BOOST_TEST(!has_the_node(a));
  BOOST_TEST(sessions_of_the_node(a) == 0u);
  BOOST_TEST(a.get("/v1/kv/" + prefix + "?recurse").status == 404);
}

/// Newer client agents create no session in another datacenter, whichever node the session has. Consul 1.12.9 is the
/// oldest tested version whose source has that check.
bool client_agents_refuse() { return consul_programs_version() >= testing::consul_version{1, 12, 9}; }

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(datacenters)

ASYNC_TEST_CASE(clients_in_two_datacenters_are_granted_in_turn, 60s) {
  federation both;
  co_await both.join();
  const std::string prefix = unique_prefix("in-turn");
  visitor far(ex, both.dc2, calm(prefix, 1));  // it comes first, so it registers the node
  visitor near(ex, both.dc1, calm(prefix, 1));

  slot held = co_await far.sem.acquire();
  BOOST_TEST(has_the_node(both.dc1));
  BOOST_TEST(sessions_of_the_node(both.dc1) == 1u);
  for (int turn = 1; turn <= 6; ++turn) {
    visitor& next = turn % 2 == 0 ? far : near;
    pending<slot> waiting(ex, next.sem.acquire());
    co_await until("the other one waits", [&] { return contenders(both.dc1, prefix).size() == 2; });
    BOOST_TEST(!waiting.ready());
    BOOST_TEST(held.held());
    const fencing_token last = held.fencing_token();
    co_await held.release();
    const error_code ec = co_await waiting.wait();
    BOOST_REQUIRE(!ec);
    held = waiting.take();
    BOOST_TEST(held.held());
    BOOST_TEST((held.fencing_token() > last));
    BOOST_TEST(holders(both.dc1, prefix).size() == 1u);
  }
  BOOST_TEST(sessions(both.dc1, prefix).size() == 2u);
  BOOST_TEST(sessions_of_the_node(both.dc1) == 2u);
  expect_nothing_in(both.dc2, prefix);

  co_await held.release();
  co_await far.sem.close();
  co_await near.sem.close();
  BOOST_TEST(is_clean(both.dc1, prefix));
}

ASYNC_TEST_CASE(the_end_of_a_session_in_the_other_datacenter_is_noticed_within_a_second, 60s) {
  federation both;
  co_await both.join();
  const std::string prefix = unique_prefix("ended");
  visitor far(ex, both.dc2, calm(prefix, 1)), near(ex, both.dc1, calm(prefix, 1));
  slot held = co_await far.sem.acquire();
  pending<loss_reason> lost(ex, held.wait_lost());
  pending<slot> waiting(ex, near.sem.acquire());
  co_await until("the other one waits", [&] { return contenders(both.dc1, prefix).size() == 2; });

  BOOST_TEST(both.dc1.put("/v1/session/destroy/" + holders(both.dc1, prefix).at(0)).status == 200);
  const bool noticed = co_await happens_within(1s, [&] { return lost.ready(); });
  BOOST_REQUIRE_MESSAGE(noticed, "the holder has not noticed within a second");
  BOOST_TEST((lost.value() == loss_reason::session_invalidated));
  BOOST_TEST(!held.held());
  const error_code ec = co_await waiting.wait();
  BOOST_REQUIRE(!ec);
  const slot next = waiting.take();
  BOOST_TEST(next.held());
  let_go(held);
}

ASYNC_TEST_CASE(a_mutex_goes_from_one_datacenter_to_the_other, 60s) {
  federation both;
  co_await both.join();
  const std::string key = unique_prefix("mutex") + "/leader";
  consul::client near_client(ex, for_dc1(both.dc1)), far_client(ex, for_dc1(both.dc2));
  holdfast::mutex near(near_client, calm(key)), far(far_client, calm(key));
  const auto owner = [&] {
    const json::value entries = read(both.dc1, "/v1/kv/" + key);
    const json::value* session = entries.at(0).as_object().if_contains("Session");
    return session ? std::string(session->as_string()) : std::string();
  };

  held_mutex first = co_await near.lock();
  const std::string session_of_near = owner();
  held_mutex none = co_await far.try_lock();
  BOOST_TEST(!none.valid());
  pending<held_mutex> waiting(ex, far.lock());
  co_await until("the other one waits", [&] {
    const auto entries = contenders(both.dc1, key);
    return std::any_of(entries.begin(), entries.end(), [&](const auto& each) { return each != session_of_near; });
  });
  BOOST_TEST(!waiting.ready());
  co_await first.release();
  const error_code ec = co_await waiting.wait();
  BOOST_REQUIRE(!ec);
  const held_mutex second = waiting.take();
  BOOST_TEST(second.held());
  BOOST_TEST((second.fencing_token() > first.fencing_token()));
  const std::string session_of_far = owner();
  BOOST_TEST(!session_of_far.empty());
  BOOST_TEST(session_of_far != session_of_near);
  BOOST_TEST(sessions_of_the_node(both.dc1) == 2u);
  expect_nothing_in(both.dc2, key);
}

/// This is why `consul lock -datacenter` fails: by default a session belongs to the node of the agent that is asked,
/// and the other datacenter has no such node.
ASYNC_TEST_CASE(a_session_there_needs_a_node_of_that_datacenter, 60s) {
  federation both;
  co_await both.join();
  const std::string target = "/v1/session/create?dc=dc1";
  for (const auto* body : {"", R"({"TTL":"60s"})", R"({"NodeChecks":[],"TTL":"60s"})", on_our_node}) {
    const agent_reply reply = both.dc2.put(target, body);
    BOOST_TEST(reply.status == 500);
    BOOST_TEST(reply.body.find(missing_node_text) != std::string::npos, reply.body);
  }
  const std::string node = R"({"Node":"holdfast-sessions","Address":"127.0.0.1")";
  BOOST_TEST(both.dc2.put("/v1/catalog/register", node + R"(,"Datacenter":"dc1"})").status == 200);
  BOOST_TEST(has_the_node(both.dc1));
  BOOST_TEST(!has_the_node(both.dc2));
  BOOST_TEST(both.dc2.put(target, on_our_node).status == 200);
  BOOST_TEST(sessions_of_the_node(both.dc1) == 1u);
  BOOST_TEST(sessions_of_the_node(both.dc2) == 0u);

  semaphore_options on_the_agents_node = calm(unique_prefix("no-node"), 1);
  on_the_agents_node.session_node.clear();
  on_the_agents_node.tuning.give_up_after = 200ms;
  visitor far(ex, both.dc2, on_the_agents_node);
  pending<slot> acquired(ex, far.sem.acquire());
  const error_code ec = co_await acquired.wait();
  BOOST_TEST(ec == error::missing_node);
}

/// An agent that gets no answer from the other datacenter is treated like one that does not answer.
ASYNC_TEST_CASE(the_lease_ends_while_the_other_datacenter_does_not_answer, 60s) {
  federation both;
  co_await both.join();
  visitor far(ex, both.dc2, hasty(unique_prefix("cut-off"), 1, 1500ms));
  slot held = co_await far.sem.acquire();
  pending<loss_reason> lost(ex, held.wait_lost());
  both.dc1.freeze();
  BOOST_TEST(held.held());
  const error_code ec = co_await lost.wait();
  BOOST_TEST(!ec);
  BOOST_TEST((lost.value() == loss_reason::lease_expired));
  BOOST_TEST(!held.held());
  both.dc1.thaw();
  let_go(held);
}

/// A client agent of `dc2` forwards all requests. Newer ones refuse to create a session in another datacenter.
ASYNC_TEST_CASE(a_client_agent_creates_no_session_there_from_1_12_9_on, 60s) {
  federation both;
  agent client_agent(agent_options{.server = false, .join = &both.dc2, .extra_config = R"({"datacenter":"dc2"})"});
  co_await both.join();
  semaphore_options options = calm(unique_prefix("client-agent"), 1);
  options.tuning.give_up_after = 1s;
  visitor far(ex, client_agent, options);
  diagnostics diag;
  acquire_options with_diag;
  with_diag.diag = &diag;
  pending<slot> acquired(ex, far.sem.acquire(with_diag));
  const error_code ec = co_await acquired.wait();
  if (client_agents_refuse()) {
    BOOST_TEST(ec == error::server_error);
    BOOST_TEST(diag.server_message.find("must be created at server agent") != std::string::npos, diag.server_message);
  } else {
    BOOST_REQUIRE(!ec);
    BOOST_TEST(acquired.take().held());
  }
}

BOOST_AUTO_TEST_SUITE_END()

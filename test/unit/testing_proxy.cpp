// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The proxy, with a fake behind it where a real agent would be.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>

#include "support/async.hpp"
#include "support/fault_stories.hpp"
#include "support/participant.hpp"
#include "support/raw_client.hpp"
#include "support/scripted_server.hpp"

using namespace holdfast;
using namespace holdfast::test;
using holdfast::testing::fault;
using holdfast::testing::fault_plan;
using holdfast::testing::proxy;
using holdfast::testing::server;

namespace {

asio::awaitable<void> block(raw_client& client, std::string key) {
  const received now = co_await client.ask("GET", "/v1/kv/" + key);
  std::string bytes = request("GET", "/v1/kv/" + key + "?index=" + std::string(now.header("X-Consul-Index")));
  co_await client.send(std::move(bytes));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(testing_proxy)

BOOST_AUTO_TEST_CASE(an_agent_is_named_by_its_address) {
  const auto is_invalid = [](const system_error& e) { return e.code() == error::invalid_address; };
  for (const char* agent : {"", "localhost:8500", "127.0.0.1:x", "https://127.0.0.1:1"})
    BOOST_CHECK_EXCEPTION(proxy{agent}, system_error, is_invalid);
}

ASYNC_TEST_CASE(every_fault_has_its_effect, 60s) {
  for (const fault_story& each : fault_stories()) {
    BOOST_TEST_CONTEXT(each.name) {
      server agent;
      proxy between(agent.address());
      co_await each.tell(ex, between, agent);
      BOOST_TEST(agent.statistics().faults == 0u);
    }
  }
}

ASYNC_TEST_CASE(every_fault_has_its_effect_in_the_users_context, 60s) {
  for (const fault_story& each : fault_stories()) {
    BOOST_TEST_CONTEXT(each.name) {
      server agent(ex);
      proxy between(ex, agent.address());
      co_await each.tell(ex, between, agent);
    }
  }
}

ASYNC_TEST_CASE(what_passes_is_not_changed, 20s) {
  scripted_server agent(ex);
  proxy between(agent.address());
  raw_client client(ex, between.address());
  co_await client.send(
      "PUT /v1/kv/%20a?x=%41 HTTP/1.1\r\nHost: h\r\nX-Consul-Token: secret\r\nContent-Length: 2\r\n\r\nab");
  auto [peer, asked] = co_await agent.accept_request();
  BOOST_TEST(asked == "PUT /v1/kv/%20a?x=%41 HTTP/1.1\r\nHost: " + agent.address() +
                          "\r\nX-Consul-Token: secret\r\nContent-Length: 2\r\n\r\nab");
  co_await peer.send("HTTP/1.1 418 I'm a teapot\r\nX-Odd: 1\r\nX-Odd: 2\r\nTransfer-Encoding: chunked\r\n\r\n");
  co_await peer.send("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  const received reply = co_await client.receive();
  BOOST_TEST(reply.status() == 418);
  BOOST_TEST(reply.bytes.find("X-Odd: 1\r\nX-Odd: 2\r\n") != std::string::npos);
  BOOST_TEST(reply.body() == "abcde");

  co_await client.send("GET / HTTP/1.1\r\n\r\n");  // on the same connection
  const std::string next = co_await peer.read_request();
  BOOST_TEST(next.starts_with("GET / HTTP/1.1\r\n"));
  co_await peer.reply("x");
  const received second = co_await client.receive();
  BOOST_TEST(second.body() == "x");
}

ASYNC_TEST_CASE(an_agent_that_fails_resets_the_client, 20s) {
  scripted_server agent(ex);
  proxy between(agent.address());
  const std::vector<std::string> replies{"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "nonsense\r\n\r\n",
                                         "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"};
  for (const std::string& each : replies) {
    raw_client client(ex, between.address());
    co_await client.send("GET / HTTP/1.1\r\n\r\n");
    auto [peer, asked] = co_await agent.accept_request();
    std::string bytes = each;
    co_await peer.send(std::move(bytes));
    peer.close();
    const received end = co_await client.receive();
    BOOST_TEST(end.was_reset());
    BOOST_TEST(end.bytes == "");
  }
  agent.stop();
  raw_client client(ex, between.address());
  const received end = co_await client.ask("GET", "/");
  BOOST_TEST(end.was_reset());
}

ASYNC_TEST_CASE(an_idle_connection_that_the_agent_closed_is_opened_again, 20s) {
  server agent;
  proxy between(agent.address());
  raw_client client(ex, between.address());
  for (int i = 0; i < 3; ++i) {
    const received reply = co_await client.ask("PUT", "/v1/kv/k", "v");
    BOOST_TEST(reply.body() == "true");
    agent.stop();
    co_await until("the agent has no connection", [&] { return agent.statistics().connections == 0; });
    agent.start();
  }
}

ASYNC_TEST_CASE(a_client_that_closes_frees_its_query_at_the_agent, 20s) {
  server agent;
  proxy between(agent.address());
  raw_client client(ex, between.address());
  co_await block(client, "k");
  co_await until("it waits at the agent", [&] { return agent.statistics().blocked == 1; });
  BOOST_TEST(between.statistics().blocked == 1u);
  client.close();
  co_await until("nothing is left",
                 [&] { return agent.statistics().connections == 0 && between.statistics().connections == 0; });
}

ASYNC_TEST_CASE(queries_that_wait_at_the_agent_can_be_answered_otherwise, 20s) {
  server agent;
  proxy between(agent.address());
  raw_client client(ex, between.address());
  co_await block(client, "k");
  co_await until("it waits at the agent", [&] { return agent.statistics().blocked == 1; });
  between.answer_blocked(500, "No cluster leader");
  const received reply = co_await client.receive();
  BOOST_TEST(reply.body() == "No cluster leader");
  co_await until("it does not any more", [&] { return agent.statistics().blocked == 0; });
  const received next = co_await client.ask("PUT", "/v1/kv/k", "v");
  BOOST_TEST(next.body() == "true");
}

ASYNC_TEST_CASE(frozen_it_holds_back_requests_and_replies, 20s) {
  server agent;
  proxy between(agent.address());
  raw_client watches(ex, between.address());
  co_await block(watches, "k");
  co_await until("it waits at the agent", [&] { return agent.statistics().blocked == 1; });
  between.freeze();
  raw_client goes(ex, between.address());
  std::string bytes = request("PUT", "/v1/kv/k", "v");
  co_await goes.send(std::move(bytes));
  co_await until("the request is held", [&] { return between.statistics().frozen == 1; });
  goes.close();
  agent.with([](testing::store& s, auto now) { s.write(consul::txn_operation::set("k", "other"), now); });
  co_await until("the reply is held too", [&] { return between.statistics().frozen == 2; });
  between.thaw();
  const received reply = co_await watches.receive();
  BOOST_TEST(reply.status() == 200);
  co_await until("the write is applied", [&] { return value_of(agent, "k") == "v"; });
}

// --- Ends

namespace {

asio::awaitable<void> begin(server& agent, proxy& between, raw_client& waits, raw_client& held) {
  co_await block(waits, "k");
  between.set_faults(fault_plan({{.what = fault::freeze(), .target = "/held"}}));
  std::string bytes = request("PUT", "/v1/kv/held", "1");
  co_await held.send(std::move(bytes));
  co_await until("both are under way",
                 [&] { return agent.statistics().blocked == 1 && between.statistics().frozen == 1; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(before_and_after_its_context) {
  server agent;
  for (const std::string order : {"proxy, then run", "proxy, then context", "context, then proxy"}) {
    BOOST_TEST_CONTEXT(order) {
      std::optional<asio::io_context> io(std::in_place);
      std::optional<proxy> between(std::in_place, io->get_executor(), agent.address());
      {
        raw_client waits(io->get_executor(), between->address());
        raw_client held(io->get_executor(), between->address());
        asio::co_spawn(*io, begin(agent, *between, waits, held), [&](std::exception_ptr failure) {
          io->stop();
          if (failure) std::rethrow_exception(failure);
        });
        io->run_for(scaled(20s));
        BOOST_REQUIRE(between->statistics().frozen == 1u);
      }
      if (order.starts_with("proxy")) between.reset();
      if (order.ends_with("run")) {
        io->restart();
        io->run_for(scaled(20s));
        BOOST_TEST(io->stopped());
      }
      io.reset();
      between.reset();
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// One client of several agents, each of which fails in its own way. The agents are models of Consul that do not know
// each other, because these tests are only about the client. cluster/failover.cpp has clusters of real agents.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/testing/server.hpp>

#include "support/async.hpp"
#include "support/black_hole.hpp"
#include "support/scripted_server.hpp"

BOOST_AUTO_TEST_SUITE(consul_failover)

namespace {

using namespace std::chrono_literals;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::consul::client;
using holdfast::consul::client_health;
using holdfast::consul::config;
using holdfast::test::as_result;
using holdfast::test::black_hole;
using holdfast::test::pending;
using holdfast::test::scripted_peer;
using holdfast::test::scripted_server;
using holdfast::testing::fault_plan;
using holdfast::testing::server;
namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using entry_answer = holdfast::consul::answer<std::optional<holdfast::consul::kv_entry>>;

// Each has the key "k", whose value is its own name.
struct agents {
  agents() {
    int number = 0;
    for (server* each : {&first, &second, &third}) {
      each->with([&](auto& store, auto now) {
        store.write(holdfast::consul::txn_operation::set("k", std::to_string(++number)), now);
      });
    }
  }
  config settings() const {
    config its;
    its.addresses = {first.address(), second.address(), third.address()};
    its.request_timeout = 20s;
    return its;
  }

  server first, second, third;
};

asio::awaitable<std::string> ask(client& through) {
  auto [ec, answer] = co_await through.get("k", holdfast::test::as_result);
  co_return ec ? ec.message() : answer.value->value;
}

ASYNC_TEST_CASE(one_that_is_gone_is_left_at_once_and_for_good, 30s) {
  agents with;
  std::vector<std::string> log;
  config settings = with.settings();
  settings.log = [&](const holdfast::log_event& event) { log.push_back(event.text()); };
  client through(ex, settings);
  BOOST_TEST(through.health().address == with.first.address());
  BOOST_TEST(through.health().last_failure == "");
  with.first.stop();
  for (int i = 0; i < 3; ++i) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "2");
  }
  const client_health now = through.health();
  BOOST_TEST(now.address == with.second.address());
  BOOST_TEST(now.last_failure.starts_with(with.first.address() + ": "), now.last_failure);
  BOOST_TEST((now.last_failure_at <= now.since));
  BOOST_TEST_REQUIRE(log.size() == 1u);
  BOOST_TEST(log[0] == "requests go to " + with.second.address() + " now, no longer to " + with.first.address() +
                           ": no connection to the server could be made: Connection refused");
  with.first.start();
  const std::string sticky = co_await ask(through);
  BOOST_TEST(sticky == "2");
  with.second.stop();
  const std::string third = co_await ask(through);
  BOOST_TEST(third == "3");
}

ASYNC_TEST_CASE(one_in_whose_place_something_else_answers_is_left, 30s) {
  using holdfast::testing::fault;
  for (const fault& answer : {fault::not_consul(404), fault::not_consul(200), fault::not_consul(302)}) {
    agents with;
    client through(ex, with.settings());
    with.first.set_faults(fault_plan({{.what = answer, .times = 0}}));
    const std::string who = co_await ask(through);
    BOOST_TEST((who == "2" || who == "3"), who);  // of the two, the one whose trial ends first
    const client_health now = through.health();
    BOOST_TEST(now.last_failure.ends_with(": not Consul's answer"), now.last_failure);
  }
}

ASYNC_TEST_CASE(what_is_under_way_at_one_that_is_left_goes_on_elsewhere_or_ends, 30s) {
  agents with;
  client through(ex, with.settings());
  holdfast::consul::read_options watch;
  watch.index = 1'000'000;
  watch.wait = 20s;
  pending<entry_answer> watches(ex, through.get("k", watch));
  while (with.first.statistics().blocked == 0) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "1");
  }
  with.first.freeze();
  pending<bool> write(ex, through.put("k", "x"));
  const auto ec = co_await write.wait();
  BOOST_TEST(ec == error::connection_lost, "nobody knows whether it will be done");
  while (with.second.statistics().blocked == 0) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "2");
  }
  BOOST_TEST(!watches.ready());
}

ASYNC_TEST_CASE(a_write_may_have_been_applied_by_one_that_was_left, 30s) {
  agents with;
  client through(ex, with.settings());
  const std::string who = co_await ask(through);
  BOOST_TEST(who == "1");
  with.first.freeze();
  for (server* each : {&with.second, &with.third}) {
    each->set_faults(
        fault_plan({{.what = holdfast::testing::fault::forbidden(), .target = "session/destroy", .times = 0}}));
  }
  pending<> destroyed(ex, through.destroy_session("s"));
  const auto ec = co_await destroyed.wait();
  BOOST_TEST((ec == holdfast::condition::outcome_unknown), ec.message());
}

ASYNC_TEST_CASE(all_are_named_by_the_last_that_failed, 30s) {
  agents with;
  config settings = with.settings();
  settings.request_timeout = 200ms;
  client through(ex, settings);
  for (server* each : {&with.first, &with.second, &with.third}) each->stop();
  diagnostics why;
  holdfast::consul::read_options once;
  once.request.diag = &why;
  once.request.retry = false;
  auto [ec, answer] = co_await through.get("k", once, holdfast::test::as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST(why.message == "get: cannot connect to " + with.third.address() + ": Connection refused");
  with.second.start();
  const std::string who = co_await ask(through);
  BOOST_TEST(who == "2");
}

// A load balancer without a backend, or an agent that has no free connection: it accepts each connection, and then
// closes it.
enum class manner { closes_at_once, closes_after_the_request, resets };

asio::awaitable<void> close_each(std::shared_ptr<scripted_server> server, manner does) {
  for (;;) {
    scripted_peer peer = co_await server->accept();
    if (does != manner::closes_at_once) co_await peer.read_request();
    if (does == manner::resets) {
      peer.reset();
    } else {
      peer.close();
    }
  }
}

ASYNC_TEST_CASE(one_that_closes_each_new_connection_is_left, 60s) {
  for (const manner does : {manner::closes_at_once, manner::closes_after_the_request, manner::resets}) {
    const agents with;
    const auto closes = std::make_shared<scripted_server>(ex);
    asio::co_spawn(ex, close_each(closes, does), asio::detached);
    config settings = with.settings();
    settings.addresses[0] = closes->address();
    client through(ex, settings);
    const std::string who = co_await ask(through);
    BOOST_TEST((who == "2" || who == "3"), who);
    closes->stop();
  }
}

// An agent that has reached its maximum of connections refuses new ones, and answers on the others.
ASYNC_TEST_CASE(one_that_refuses_only_new_connections_is_not_left, 30s) {
  const agents with;
  const auto full = std::make_shared<scripted_server>(ex);
  config settings = with.settings();
  settings.addresses[0] = full->address();
  settings.request_timeout = 300ms;
  client through(ex, settings);
  pending<bool> first(ex, through.put("k", "1"));
  auto [kept, request] = co_await full->accept_request();
  co_await kept.reply("true");
  co_await first.wait();
  asio::co_spawn(ex, close_each(full, manner::resets), asio::detached);
  holdfast::consul::read_options watch;
  watch.index = 1'000'000;
  watch.wait = 10s;
  for (int i = 0; i < 8; ++i) {
    pending<entry_answer> waits(ex, through.get("k", watch));
    const std::string question = co_await kept.read_request();
    BOOST_TEST(question.starts_with("GET /v1/kv/k?index="));
    pending<bool> refused(ex, through.put("k", "1"));
    const auto ec = co_await refused.wait();
    BOOST_TEST(ec);
    co_await kept.reply("[]", "X-Consul-Index: 7\r\n");
    co_await waits.wait();
  }
  BOOST_TEST(through.health().address == full->address());
  full->stop();
}

ASYNC_TEST_CASE(one_that_says_nothing_is_left_though_no_request_waits_for_a_second, 30s) {
  agents with;
  config settings = with.settings();
  settings.request_timeout = 400ms;
  client through(ex, settings);
  with.first.freeze();
  std::string who;
  int asked = 0;
  for (; who != "2" && asked != 20; ++asked) who = co_await ask(through);
  BOOST_TEST(who == "2", "after " << asked << " requests");
}

// The user's choice says nothing about the agent.
ASYNC_TEST_CASE(what_is_cancelled_is_not_the_agents_failure, 30s) {
  const agents with;
  const black_hole silent(ex);
  config settings = with.settings();
  settings.addresses[0] = "127.0.0.1:" + std::to_string(silent.endpoint().port());
  settings.connect_timeout = 10s;
  client through(ex, settings);
  for (int i = 0; i < 3; ++i) {
    asio::steady_timer soon(ex, 20ms);
    auto ended = co_await (soon.async_wait(as_result) || through.get("k", as_result));
    BOOST_TEST(ended.index() == 0u);
  }
  BOOST_TEST(through.health().last_failure == "");
  BOOST_TEST(with.second.statistics().accepted == 0u);
}

// The log line is about the agent that the client has left, not about those that it has tried next.
ASYNC_TEST_CASE(the_log_says_what_was_wrong_with_the_agent_that_is_left, 30s) {
  agents with;
  std::vector<std::string> log;
  config settings = with.settings();
  settings.log = [&](const holdfast::log_event& event) { log.push_back(event.text()); };
  client through(ex, settings);
  std::string who = co_await ask(through);
  with.first.stop();
  with.second.set_faults(fault_plan({{.what = holdfast::testing::fault::answer(500, "only a moment")}}));
  while (who != "3" && who != "2") who = co_await ask(through);
  while (log.empty()) co_await asio::post(ex, asio::use_awaitable);
  // "refused" or, if the agent stops while it accepts the connection, "reset by peer".
  BOOST_TEST(log[0].find("Connection re") != std::string::npos, log[0]);
  BOOST_TEST(log[0].find("only a moment") == std::string::npos, log[0]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

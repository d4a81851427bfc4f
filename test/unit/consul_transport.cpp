// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which connections are kept, and for how long.

#include "consul/transport.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>

#include "support/async.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul::detail;
using holdfast::error;
using holdfast::consul::config;
using holdfast::lifetime::event_log;
using holdfast::test::scripted_peer;
using holdfast::test::scripted_server;

namespace {

http_request request_for(std::string_view target, std::chrono::milliseconds wait = 0ms) {
  http_request request;
  request.target = target;
  request.wait = wait;
  return request;
}

// A transport, and the results of its requests. The requests own it, as operations own their client.
struct tested : std::enable_shared_from_this<tested> {
  tested(const asio::any_io_executor& ex, const scripted_server& server, clock::duration idle_max)
      : strand(ex), addresses{{{"127.0.0.1", server.endpoint().port()}}} {
    settings.connections_max = 2;
    settings.log = [this](const holdfast::log_event& event) { log.push_back(event.text()); };
    link.emplace(strand, settings, addresses, statistics, health, event_log::make(strand, settings.log), idle_max);
  }

  // A host name with these addresses.
  tested(const asio::any_io_executor& ex, std::vector<const scripted_server*> servers)
      : strand(ex), addresses{{{"consul.example", 8500}}} {
    settings.log = [this](const holdfast::log_event& event) { log.push_back(event.text()); };
    for (const scripted_server* each : servers) ips.emplace_back(each->endpoint());
    link.emplace(strand, settings, addresses, statistics, health, event_log::make(strand, settings.log), 1min,
                 [this](const holdfast::net::address&) {
                   ++lookups;
                   const auto job = std::make_shared<lookup>();
                   if (lookup_fails) job->end({asio::error::host_not_found_try_again, {}});
                   if (!lookup_fails && !lookup_hangs) job->end({{}, ips});
                   return job;
                 });
  }

  void send(std::string_view target, connection_class which, std::chrono::milliseconds wait = 0ms,
            bool repeatable = true, std::chrono::milliseconds limit = 10min) {
    auto body = [](transport& link, http_request request, connection_class connection_class,
                   std::chrono::milliseconds limit) -> awaitable<attempt_result> {
      attempt_result result = co_await link.send(request, connection_class, clock::now() + limit);
      co_return result;
    };
    link->owned_by(weak_from_this());
    http_request request = request_for(target, wait);
    request.repeatable = repeatable;
    asio::co_spawn(strand, body(*link, std::move(request), which, limit),
                   [self = shared_from_this()](const std::exception_ptr& failure, const attempt_result& result) {
                     if (failure) std::rethrow_exception(failure);
                     self->errors.push_back(result.error);
                     ++self->answered;
                   });
  }

  strand_type strand;
  config settings;
  std::vector<agent_address> addresses;
  connection::endpoints ips;
  std::shared_ptr<counters> statistics = std::make_shared<counters>();
  health_record health{"127.0.0.1"};
  std::optional<transport> link;
  int lookups = 0;
  bool lookup_hangs = false;
  bool lookup_fails = false;
  int answered = 0;
  std::vector<holdfast::error_code> errors;
  std::vector<std::string> log;
};

asio::awaitable<void> answer_leader(scripted_peer& peer) {
  const std::string question = co_await peer.read_request();
  BOOST_TEST(question.starts_with("GET /v1/status/leader "));
  co_await peer.reply("\"10.0.0.1:8300\"\n");
}

const std::string too_many =
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 8\r\n\r\n"
    "too many";

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_transport)

ASYNC_TEST_CASE(what_is_refused_is_tried_again_while_others_work) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  t->send("/1?index=1&wait=60000ms", connection_class::blocking, 1min);
  auto [first, one] = co_await server.accept_request();
  int refused = 0;
  for (const bool by_answer : {false, true}) {
    for (const connection_class which :
         {connection_class::blocking, connection_class::ordinary, connection_class::renewal}) {
      t->send("/2?index=1&wait=60000ms", which, which == connection_class::blocking ? 1min : 0ms);
      auto [second, other] = co_await server.accept_request();
      if (by_answer) {
        co_await second.send(too_many);
        second.close();
      } else {
        second.reset();
      }
      ++refused;
      auto [third, again] = co_await server.accept_request();
      BOOST_TEST(again.starts_with("GET /2?index=1&wait="));
      co_await third.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]");
      while (t->answered < refused) co_await asio::post(ex, asio::use_awaitable);
      BOOST_TEST(!t->errors.back());
    }
  }
  BOOST_TEST(t->statistics->connections_refused == 3u, "a connection that is reset once proves nothing");
  BOOST_TEST_REQUIRE(t->log.size() == 1u);
  BOOST_TEST(t->log[0] == t->addresses.front().to_string() +
                              " refuses connections: this host has as many as it allows from one address. 2 of 32 "
                              "blocking queries run at once now; raise limits.http_max_conns_per_client (200 by "
                              "default) there");
}

ASYNC_TEST_CASE(fewer_queries_run_when_some_are_refused) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  std::vector<holdfast::test::scripted_peer> peers;
  const auto watch = [t] { t->send("/w?index=1&wait=60000ms", connection_class::blocking, 1min); };
  for (int i = 0; i < 3; ++i) {
    watch();
    auto [peer, request] = co_await server.accept_request();
    peers.push_back(std::move(peer));
  }
  t->send("/old", connection_class::renewal);
  auto [old, before] = co_await server.accept_request();
  co_await old.reply("[]");
  while (t->answered < 1) co_await asio::post(ex, asio::use_awaitable);
  watch();
  for (unsigned i = 0; i != refusals::believed_after; ++i) {
    BOOST_TEST(t->statistics->connections_refused == 0u);
    auto [peer, request] = co_await server.accept_request();
    peer.reset();
    if (i != 1) continue;                        // from here on, the client knows of the first one
    t->send("/old", connection_class::renewal);  // is answered on the connection that works
    co_await old.read_request();
    co_await old.reply("[]");
    while (t->answered < 2) co_await asio::post(ex, asio::use_awaitable);
  }
  while (t->statistics->connections_refused == 0) co_await asio::post(ex, asio::use_awaitable);
  // No connection is opened for this request. It waits for one that works, and its query does not last longer than
  // others can wait.
  co_await peers[1].reply("[]");
  const std::string next = co_await peers[1].read_request();
  BOOST_TEST(next.starts_with("GET /w?index=1&wait=1000ms "));
  BOOST_TEST(t->statistics->connections_opened == 4u + refusals::believed_after);
}

// So does an agent that is killed, and a port behind which is no HTTP.
ASYNC_TEST_CASE(an_agent_that_serves_nobody_has_not_too_many_connections) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  t->send("/w?index=1&wait=60000ms", connection_class::blocking, 1min);
  auto [watched, watch] = co_await server.accept_request();
  t->send("/old", connection_class::ordinary);
  auto [old, before] = co_await server.accept_request();
  t->send("/new", connection_class::ordinary);
  for (unsigned i = 0; i != refusals::believed_after; ++i) {
    auto [peer, request] = co_await server.accept_request();
    peer.reset();
  }
  while (t->answered < 1) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(t->errors.back() == error::connection_lost, "the caller decides whether it goes on");
  co_await old.reply("[]");  // was asked for before the first was refused
  while (t->answered < 2) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(!t->errors.back());
  BOOST_TEST(t->statistics->connections_refused == 0u);
  BOOST_TEST(t->log.empty());
}

ASYNC_TEST_CASE(a_write_goes_only_where_something_was_answered_when_connections_are_refused) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  t->send("/w?index=1&wait=60000ms", connection_class::blocking, 1min);
  auto [watched, watch] = co_await server.accept_request();
  t->send("/write", connection_class::ordinary, 0ms, false);
  auto [lost, first] = co_await server.accept_request();
  BOOST_TEST(first.starts_with("GET /write "));
  lost.reset();
  while (t->answered == 0) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(t->errors.back() == error::connection_lost, "it may have been applied");

  t->send("/write", connection_class::ordinary, 0ms, false);
  auto [refused, probe] = co_await server.accept_request();
  BOOST_TEST(probe.starts_with("GET /v1/status/leader "));
  refused.reset();
  auto [accepted, again] = co_await server.accept_request();
  BOOST_TEST(again.starts_with("GET /v1/status/leader "));
  co_await accepted.reply("\"127.0.0.1:8300\"");
  const std::string write = co_await accepted.read_request();
  BOOST_TEST(write.starts_with("GET /write "));
  co_await accepted.reply("[]");
  while (t->answered == 1) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(!t->errors.back());
}

ASYNC_TEST_CASE(an_agent_that_comes_back_has_refused_nothing) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  t->send("/w?index=1&wait=60000ms", connection_class::blocking, 1min);
  auto [watched, watch] = co_await server.accept_request();
  t->send("/write", connection_class::ordinary, 0ms, false);
  auto [lost, first] = co_await server.accept_request();
  lost.reset();
  while (t->answered == 0) co_await asio::post(ex, asio::use_awaitable);

  const auto endpoint = server.endpoint();
  server.stop();
  t->send("/write", connection_class::ordinary, 0ms, false);
  while (t->answered == 1) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(t->errors.back() == error::unreachable);
  scripted_server again(ex, endpoint);
  t->send("/write", connection_class::ordinary, 0ms, false);
  auto [peer, write] = co_await again.accept_request();
  BOOST_TEST(write.starts_with("GET /write "));
}

ASYNC_TEST_CASE(renewals_and_writes_take_what_a_query_leaves_when_connections_are_refused) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, server, 1min);
  std::vector<holdfast::test::scripted_peer> peers;
  for (int i = 0; i < 4; ++i) {
    t->send("/w?index=1&wait=60000ms", connection_class::blocking, 1min);
    auto [peer, request] = co_await server.accept_request();
    peers.push_back(std::move(peer));
  }
  t->send("/refused", connection_class::ordinary);
  auto [refused, request] = co_await server.accept_request();
  co_await refused.send(too_many);
  refused.close();
  auto [accepted, again] = co_await server.accept_request();
  co_await accepted.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]");
  while (t->answered < 1) co_await asio::post(ex, asio::use_awaitable);

  t->send("/waits?index=1&wait=60000ms", connection_class::blocking, 1min);
  co_await peers.back().reply("[]");
  while (t->answered < 2) co_await asio::post(ex, asio::use_awaitable);
  t->send("/first", connection_class::renewal);
  const std::string next = co_await peers.back().read_request();
  BOOST_TEST(next.starts_with("GET /first "));
  BOOST_TEST(t->statistics->connections_opened == 6u);
}

BOOST_AUTO_TEST_CASE(no_timer_keeps_the_context_running) {
  boost::asio::io_context context;
  scripted_server server(context.get_executor());
  const auto t = std::make_shared<tested>(context.get_executor(), server, 1h);
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        t->send("/1", connection_class::ordinary);
        t->send("/2", connection_class::renewal);
        auto [first, one] = co_await server.accept_request();
        auto [second, other] = co_await server.accept_request();
        co_await first.reply("[]");
        co_await second.reply("[]");
      },
      asio::detached);
  context.run();
  BOOST_TEST(t->answered == 2);
}

// As with several addresses, requests go on at the next address of the name, if that agent knows a leader.
ASYNC_TEST_CASE(a_name_is_more_than_its_first_address, 30s) {
  scripted_server silent(ex);
  scripted_server works(ex);
  const auto t = std::make_shared<tested>(ex, std::vector<const scripted_server*>{&silent, &works});
  t->send("/first", connection_class::ordinary);
  auto [peer, request] = co_await silent.accept_request();
  co_await peer.reply("[]");
  t->send("/second", connection_class::ordinary);
  std::string again = co_await peer.read_request();
  BOOST_TEST(again.starts_with("GET /second "));
  // One second later, both are asked if they know a leader.
  scripted_peer ignored = co_await silent.accept();
  scripted_peer trial = co_await works.accept();
  co_await answer_leader(trial);
  auto [next, moved] = co_await works.accept_request();
  BOOST_TEST(moved.starts_with("GET /second "));
  co_await next.reply("[]");
  while (t->answered != 2) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(!t->errors.back());
  BOOST_TEST(t->health.read().address == "consul.example:8500 (127.0.0.1)");
  BOOST_TEST(t->health.read().last_failure.find("does not answer") != std::string::npos);
  while (t->log.empty()) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(t->log.front().starts_with("requests go to consul.example:8500 (127.0.0.1) now"));
  // The next connection goes there at once.
  t->send("/third", connection_class::renewal);
  auto [third, last] = co_await works.accept_request();
  BOOST_TEST(last.starts_with("GET /third "));
}

ASYNC_TEST_CASE(a_name_with_one_address_that_is_gone_says_so_once) {
  scripted_server only(ex);
  const auto t = std::make_shared<tested>(ex, std::vector<const scripted_server*>{&only});
  t->send("/first", connection_class::ordinary);
  auto [peer, request] = co_await only.accept_request();
  co_await peer.reply("[]");
  peer.close();
  only.stop();
  for (int i = 2; i != 5; ++i) {
    t->send("/", connection_class::ordinary);
    while (t->answered != i) co_await asio::post(ex, asio::use_awaitable);
    BOOST_TEST(t->errors.back() == error::unreachable);
  }
  BOOST_TEST(t->health.read().last_failure.find("refused") != std::string::npos, t->health.read().last_failure);
  BOOST_TEST(t->log.empty());
}

ASYNC_TEST_CASE(a_lookup_that_hangs_or_fails_holds_up_nobody_who_knows_the_addresses, 10s) {
  scripted_server server(ex);
  const auto t = std::make_shared<tested>(ex, std::vector<const scripted_server*>{&server});
  // A request that waits for the lookup goes on after this time, so it must be longer than the deadline of a test case.
  t->settings.connect_timeout = 10min;
  const std::string last_reply = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]";
  t->send("/first", connection_class::ordinary);
  auto [peer, request] = co_await server.accept_request();
  co_await peer.send(last_reply);
  t->lookup_fails = true;
  t->send("/fails", connection_class::ordinary);
  auto [second, failed] = co_await server.accept_request();
  co_await second.send(last_reply);
  t->lookup_fails = false;
  t->lookup_hangs = true;
  t->send("/hangs?index=1&wait=60000ms", connection_class::blocking, 1min);
  t->send("/hangs", connection_class::ordinary);
  t->send("/hangs", connection_class::ordinary);
  for (int i = 0; i < 3; ++i) {
    auto [third, hung] = co_await server.accept_request();
    BOOST_TEST(hung.starts_with("GET /hangs"));
    co_await third.send(last_reply);
  }
  while (t->answered != 5) co_await asio::post(ex, asio::use_awaitable);
  for (const auto& each : t->errors) BOOST_TEST(!each);
  BOOST_TEST(t->lookups <= 3, "one at a time");
}

ASYNC_TEST_CASE(requests_that_wait_for_a_dead_agent_make_one_attempt_at_a_time, 20s) {
  scripted_server gone(ex);
  const auto t = std::make_shared<tested>(ex, std::vector<const scripted_server*>{&gone});
  gone.stop();
  t->send("/first", connection_class::ordinary);
  while (t->answered == 0) co_await asio::post(ex, asio::use_awaitable);
  const int before = t->lookups;
  constexpr int many = 1'000;
  for (int i = 0; i < many; ++i) t->send("/", connection_class::ordinary, 0ms, true, 300ms);
  while (t->answered != 1 + many) co_await asio::post(ex, asio::use_awaitable);
  for (const auto& each : t->errors) BOOST_TEST(each == error::unreachable);
  BOOST_TEST(t->lookups - before < 100);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The fake Consul, seen from its port: by raw sockets, and by the library's client.

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/testing/server.hpp>
#include <thread>

#include "support/async.hpp"
#include "support/fault_stories.hpp"
#include "support/participant.hpp"
#include "support/raw_client.hpp"
#include "support/scripted_server.hpp"

using namespace holdfast;
using namespace holdfast::test;
using holdfast::testing::fault;
using holdfast::testing::fault_plan;
using holdfast::testing::server;
using holdfast::testing::server_options;
using holdfast::testing::store;

BOOST_AUTO_TEST_SUITE(testing_server)

namespace {

std::string query(const std::string& target, const received& last, std::string_view wait = "600s") {
  std::string out = target;
  return out.append("?index=").append(last.header("X-Consul-Index")).append("&wait=").append(wait);
}

asio::awaitable<void> until_blocked(const testing::front& f, std::size_t queries) {
  co_await until("the queries wait", [&] { return f.statistics().blocked == queries; });
}

asio::awaitable<void> until_gone(const testing::front& f) {
  co_await until("no connection is left", [&] { return f.statistics().connections == 0; });
}

/// A client that waits for a change of the key.
asio::awaitable<void> block(raw_client& client, std::string key) {
  const received now = co_await client.ask("GET", "/v1/kv/" + key);
  std::string bytes = request("GET", query("/v1/kv/" + key, now));
  co_await client.send(std::move(bytes));
}

/// Returns the executor of the test's context, outside the strand on which the test's body runs.
asio::any_io_executor off_strand(const asio::any_io_executor& ex) {
  return static_cast<asio::io_context&>(asio::query(ex, asio::execution::context)).get_executor();
}

void write(server& consul, const std::string& key, const std::string& value) {
  consul.with([&](store& s, auto now) { s.write(consul::txn_operation::set(key, value), now); });
}

asio::awaitable<void> expect_good(asio::any_io_executor ex, server& consul) {
  raw_client client(ex, consul.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/good", "1");
  BOOST_TEST(reply.body() == "true");
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_says_what_it_is) {
  BOOST_TEST(server::banner.find("not a Consul server") != std::string_view::npos);
  BOOST_TEST(server::banner.find("development and tests only") != std::string_view::npos);
  BOOST_TEST(server::banner.find("nothing is persisted") != std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(only_loopback_addresses_are_listened_on) {
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "localhost", "", "127.0.0.1:1"}) {
    const auto is_invalid = [](const system_error& e) { return e.code() == error::invalid_option; };
    BOOST_CHECK_EXCEPTION(server(server_options{.host = host}), system_error, is_invalid);
  }
  BOOST_TEST(server(server_options{.host = "127.9.8.7"}).address().starts_with("127.9.8.7:"));
}

BOOST_AUTO_TEST_CASE(a_port_in_use_is_refused) {
  const server first;
  const auto port = static_cast<std::uint16_t>(std::stoi(first.address().substr(10)));
  BOOST_CHECK_THROW(server(server_options{.port = port}), system_error);
}

// --- Faults

BOOST_AUTO_TEST_CASE(there_is_a_story_of_every_fault) {
  const auto& all = fault_stories();
  for (const fault::kind each : holdfast::testing::fault_kinds) {
    const auto stories = std::count_if(all.begin(), all.end(), [&](const auto& story) { return story.kind == each; });
    BOOST_TEST(stories == 1, stories << " stories of the fault \"" << to_string(each) << "\"");
  }
}

ASYNC_TEST_CASE(every_fault_has_its_effect, 60s) {
  for (const fault_story& each : fault_stories()) {
    BOOST_TEST_CONTEXT(each.name) {
      server consul;
      co_await each.tell(ex, consul, consul);
    }
  }
}

ASYNC_TEST_CASE(every_fault_has_its_effect_in_the_users_context, 60s) {
  for (const fault_story& each : fault_stories()) {
    BOOST_TEST_CONTEXT(each.name) {
      server consul(ex);
      co_await each.tell(ex, consul, consul);
    }
  }
}

// Like the reply of a new leader about a session that it does not know yet.
ASYNC_TEST_CASE(a_renewal_is_told_that_a_living_session_is_gone, 20s) {
  server consul;
  consul::client client(ex, consul.client_config());
  consul::session_options how;
  const std::string id = co_await client.create_session(how);
  consul.set_faults(fault_plan({{.what = fault::session_not_found(id), .target = "PUT /v1/session/renew/" + id}}));
  const consul::request_options once{.retry = false};
  auto [lie] = co_await client.renew_session(id, once, as_result);
  BOOST_TEST(lie == error::invalid_session);
  const auto truth = co_await client.session(id);
  BOOST_TEST(truth.value.has_value());
  auto [renewed] = co_await client.renew_session(id, once, as_result);
  BOOST_TEST(!renewed);
}

ASYNC_TEST_CASE(a_copy_is_not_applied_after_stop, 20s) {
  server consul(ex);
  raw_client client(ex, consul.address());
  consul.set_faults(fault_plan({{.what = fault::repeat_later(1h), .target = "PUT /v1/kv/stopped"}}));
  co_await client.ask("PUT", "/v1/kv/stopped", "1");
  client.close();
  co_await until("only the copy is left", [&] { return consul.statistics().connections == 1; });
  consul.stop();
  co_await until_gone(consul);
  BOOST_TEST(value_of(consul, "stopped") == "1");
}

ASYNC_TEST_CASE(a_freeze_holds_back_a_copy_too, 20s) {
  server consul(ex);
  raw_client client(ex, consul.address());
  for (bool is_early = false; !is_early;) {
    consul.thaw();
    consul.set_faults(fault_plan({{.what = fault::repeat_later(20ms), .target = "PUT "}}));
    co_await client.ask("PUT", "/v1/kv/k", "1");
    consul.freeze();
    is_early = consul.statistics().connections == 2;  // the client's, and the copy
  }
  write(consul, "k", "2");
  co_await until("the copy is held", [&] { return consul.statistics().frozen == 1; });
  BOOST_TEST(value_of(consul, "k") == "2");
  consul.thaw();
  co_await until("it is applied", [&] { return value_of(consul, "k") == "1"; });
}

// --- Blocking queries

ASYNC_TEST_CASE(a_thousand_queries_are_held_and_woken_by_one_write, 60s) {
  constexpr std::size_t many = 1000;
  server consul;
  write(consul, "k", "1");
  std::vector<std::unique_ptr<raw_client>> clients;
  for (std::size_t i = 0; i < many; ++i) {
    clients.push_back(std::make_unique<raw_client>(ex, consul.address()));
    co_await block(*clients.back(), "k");
  }
  co_await until_blocked(consul, many);
  raw_client writer(ex, consul.address());
  const received put = co_await writer.ask("PUT", "/v1/kv/k", "2");
  BOOST_TEST(put.body() == "true");
  std::size_t woken = 0;
  for (const auto& each : clients) {
    const received reply = co_await each->receive();
    woken += reply.body().find("\"Mg==\"") != std::string_view::npos;
  }
  BOOST_TEST(woken == many);
  BOOST_TEST(consul.statistics().blocked == 0u);
  BOOST_TEST(consul.with([](store& s, auto) { return s.watches(); }) == 0u);
}

ASYNC_TEST_CASE(it_has_the_ways_of_the_version_that_was_asked_for, 20s) {
  server consul(server_options{.model = {.version = {1, 8, 7}}});
  raw_client client(ex, consul.address());
  co_await block(client, "k");
  co_await until_blocked(consul, 1);
  write(consul, "other", "1");  // beside the missing key: it is woken, and finds a new index
  const received reply = co_await client.receive();
  BOOST_TEST(reply.status() == 404);
  const received self = co_await client.ask("GET", "/v1/agent/self");
  BOOST_TEST(self.body().find("\"1.8.7\"") != std::string_view::npos);
}

BOOST_AUTO_TEST_CASE(versions_are_read_and_compared) {
  using holdfast::testing::consul_version;
  using holdfast::testing::newest_consul_version;
  BOOST_TEST((consul_version::from_text("1.22.7") == consul_version{1, 22, 7}));
  BOOST_TEST((consul_version::from_text("1.12.9+ent") == consul_version{1, 12, 9}));
  for (const char* const text : {"", "1", "1.2", "1.2.", "v1.2.3", "1,2,3", "-1.2.3"})
    BOOST_TEST(!consul_version::from_text(text), text);
  BOOST_TEST((consul_version{1, 9, 17} < consul_version{1, 10, 0}));
  BOOST_TEST((newest_consul_version.to_text() == "1.22.7"));
}

ASYNC_TEST_CASE(an_exchange_that_lasts_too_long_gets_the_end_of_its_connection, 20s) {
  server consul(server_options{.exchange_max = 20ms});
  raw_client client(ex, consul.address());
  co_await block(client, "k");
  const received end = co_await client.receive_all();
  BOOST_TEST(end.bytes == "");
  BOOST_TEST(consul.statistics().blocked == 0u);
  client.close();
  const received late = co_await client.ask("GET", "/v1/kv/k?index=1&wait=1ms");
  BOOST_TEST(late.status() == 404);
}

/// A watch that is cut again and again is no outage.
ASYNC_TEST_CASE(locks_do_not_notice_that_exchanges_are_cut, 30s) {
  server consul(server_options{.exchange_max = 1'100ms});
  std::vector<std::string> lines;
  semaphore_options options = calm("cut", 1);
  options.log = [&](const holdfast::log_event& event) { lines.push_back(event.text()); };
  participant holder(ex, consul.address(), options), waiter(ex, consul.address(), options);
  slot held = co_await holder.sem.acquire();
  pending<slot> waiting(ex, waiter.sem.acquire());
  co_await until_blocked(consul, 2);
  const std::uint64_t accepted = consul.statistics().accepted;
  co_await until(
      "each has been cut twice", [&] { return consul.statistics().accepted >= accepted + 4; }, 20s);
  BOOST_TEST(held.held());
  BOOST_TEST(lines.empty());
  co_await held.release();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(lines.empty());
}

ASYNC_TEST_CASE(requests_on_one_connection_are_answered_in_order, 20s) {
  server consul;
  raw_client client(ex, consul.address());
  std::string all;
  for (int i = 0; i < 20; ++i) all += request("PUT", "/v1/kv/k?cas=" + std::string(i == 0 ? "0" : "1"), "v");
  all += request("GET", "/v1/kv/k?raw");
  co_await client.send(std::move(all));
  for (int i = 0; i < 20; ++i) {
    const received reply = co_await client.receive();
    BOOST_TEST(reply.body() == (i == 0 ? "true" : "false"));
  }
  const received value = co_await client.receive();
  BOOST_TEST(value.body() == "v");
}

// --- Connections

ASYNC_TEST_CASE(connections_are_kept_or_closed_as_asked, 20s) {
  server consul;
  raw_client old(ex, consul.address());
  co_await old.send("GET /v1/status/leader HTTP/1.0\r\n\r\n");
  const received once = co_await old.receive_all();
  BOOST_TEST(once.status() == 200);
  BOOST_TEST(once.header("Connection") == "close");
  raw_client client(ex, consul.address());
  co_await client.send("GET /v1/status/leader HTTP/1.1\r\nConnection: close\r\n\r\n");
  const received last = co_await client.receive_all();
  BOOST_TEST(last.status() == 200);
  BOOST_TEST(last.end == asio::error::eof);
}

ASYNC_TEST_CASE(a_request_that_is_none_harms_nobody, 60s) {
  server consul;
  const std::string many(100'000, 'x');
  const std::string put = "PUT /v1/kv/k HTTP/1.1\r\n";
  const std::vector<std::pair<std::string, int>> bad{
      {"nonsense\r\n\r\n", 400},
      {"GET\r\n\r\n", 400},
      {"GET / HTTP/7.0\r\n\r\n", 400},
      {std::string("\x16\x03\x01\x00\xff\x00\n\n", 8), 400},
      {std::string(3000, '\0'), 400},
      {put + "Content-Length: many\r\n\r\n", 400},
      {put + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
      {put + "Transfer-Encoding: chunked\r\n\r\n1;" + many, 400},
      {put + "X: " + many + "\r\n\r\n", 431},
      {"GET /" + many + " HTTP/1.1\r\n\r\n", 431},
      {put + "Content-Length: 9999999\r\n\r\n" + many, 413},
      {put + "Content-Length: 530000\r\n\r\n" + std::string(530'000, 'x'), 413},
      {put + "Transfer-Encoding: chunked\r\n\r\nffffff\r\n" + std::string(1'000'000, 'x'), 413},
      {"GET relative HTTP/1.1\r\nConnection: close\r\n\r\n", 400},
  };
  for (const auto& [bytes, status] : bad) {
    BOOST_TEST_CONTEXT(bytes.substr(0, 60)) {
      raw_client client(ex, consul.address());
      std::string sent = bytes;
      co_await client.send(std::move(sent));
      const received reply = co_await client.receive();
      BOOST_TEST(reply.status() == status);
      client.close();
      co_await expect_good(ex, consul);
    }
  }
  BOOST_TEST(value_of(consul, "k") == "");
}

ASYNC_TEST_CASE(one_connection_too_many_is_reset, 20s) {
  server consul(server_options{.connections_max = 2});
  raw_client one(ex, consul.address());
  raw_client two(ex, consul.address());
  raw_client three(ex, consul.address());
  const received first = co_await one.ask("GET", "/v1/status/leader");
  const received second = co_await two.ask("GET", "/v1/status/leader");
  const received third = co_await three.ask("GET", "/v1/status/leader");
  BOOST_TEST(first.status() == 200);
  BOOST_TEST(second.status() == 200);
  BOOST_TEST(static_cast<bool>(third.end));
  BOOST_TEST(third.bytes == "");
  one.close();
  co_await until("there is room", [&] { return consul.statistics().connections == 1; });
  three.close();
  const received again = co_await three.ask("GET", "/v1/status/leader");
  BOOST_TEST(again.status() == 200);
}

// --- Freezing, cutting, stopping

ASYNC_TEST_CASE(frozen_it_accepts_and_answers_nothing_and_thawed_it_applies_all_in_order, 30s) {
  constexpr std::size_t many = 10;
  server consul;
  consul.freeze();
  std::vector<std::unique_ptr<raw_client>> clients;
  for (std::size_t i = 0; i < many; ++i) {
    clients.push_back(std::make_unique<raw_client>(ex, consul.address()));
    std::string bytes = request("PUT", "/v1/kv/k" + std::to_string(i), "v");
    co_await clients.back()->send(std::move(bytes));
    co_await until("it is held", [&] { return consul.statistics().frozen == i + 1; });
    if (i % 3 == 0) clients.back()->close();
    if (i % 3 == 1) clients.back()->reset();
  }
  BOOST_TEST(value_of(consul, "k0") == "");
  consul.thaw();
  for (std::size_t i = 2; i < many; i += 3) {
    const received reply = co_await clients[i]->receive();
    BOOST_TEST(reply.body() == "true");
  }
  co_await until("all are applied", [&] { return value_of(consul, "k" + std::to_string(many - 1)) == "v"; });
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < many; ++i) {
    const auto index = consul.with([&](store& s, auto) {
      const auto found = s.get("k" + std::to_string(i));
      return found.value ? found.value->modify_index : 0;
    });
    BOOST_TEST(index > last);
    last = index;
  }
  co_await until("nothing is held", [&] { return consul.statistics().frozen == 0; });
  co_await expect_good(ex, consul);
}

ASYNC_TEST_CASE(cut_connections_are_reset_and_what_was_read_is_applied, 20s) {
  server consul;
  raw_client idle(ex, consul.address());
  co_await idle.ask("GET", "/v1/status/leader");
  raw_client waits(ex, consul.address());
  co_await block(waits, "x");
  co_await until_blocked(consul, 1);
  consul.freeze();
  raw_client writes(ex, consul.address());
  std::string bytes = request("PUT", "/v1/kv/k", "1");
  co_await writes.send(std::move(bytes));
  co_await until("it is held", [&] { return consul.statistics().frozen == 1; });
  consul.cut();
  for (raw_client* const each : {&idle, &waits, &writes}) {
    const received end = co_await each->receive();
    BOOST_TEST(end.was_reset());
  }
  consul.thaw();
  co_await until("the write is applied", [&] { return value_of(consul, "k") == "1"; });
  co_await until_gone(consul);
  co_await expect_good(ex, consul);
}

ASYNC_TEST_CASE(stopped_it_refuses_connections_and_started_it_has_its_port_and_state, 30s) {
  server consul;
  const std::string address = consul.address();
  for (int i = 0; i < 3; ++i) {
    write(consul, "k", std::to_string(i));
    raw_client waits(ex, address);
    co_await block(waits, "k");
    co_await until_blocked(consul, 1);
    consul.freeze();
    raw_client held(ex, address);
    std::string bytes = request("PUT", "/v1/kv/held", "1");
    co_await held.send(std::move(bytes));
    co_await until("it is held", [&] { return consul.statistics().frozen == 1; });

    consul.stop();
    consul.stop();  // no more than once
    raw_client refused(ex, address);
    const error_code ec = co_await refused.connect();
    BOOST_TEST(ec == asio::error::connection_refused);
    const received cut = co_await waits.receive();
    BOOST_TEST(cut.was_reset());
    co_await until_gone(consul);
    consul.thaw();
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(10)));
    BOOST_CHECK_THROW(asio::ip::tcp::acceptor(ex, {asio::ip::address_v4::loopback(), port}, false), system_error);

    consul.start();
    consul.start();
    BOOST_TEST(consul.address() == address);
    raw_client client(ex, address);
    const received value = co_await client.ask("GET", "/v1/kv/k?raw");
    BOOST_TEST(value.body() == std::to_string(i));
    BOOST_TEST(value_of(consul, "held") == "");  // died with the process that had read it
  }
}

// --- Ends, in each order

namespace {

/// Everything that can be pending: an idle connection, a copy of its request, a blocking query, a held request, a
/// delayed one, and half a request.
struct things_under_way {
  things_under_way(const asio::any_io_executor& ex, const std::string& address) {
    for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<raw_client>(ex, address));
  }
  asio::awaitable<void> begin(server& consul) {
    consul.set_faults(fault_plan({{.what = fault::repeat_later(1h)}}));
    co_await clients[0]->ask("GET", "/v1/status/leader");
    co_await block(*clients[1], "k");
    consul.set_faults(
        fault_plan({{.what = fault::freeze(), .target = "/held"}, {.what = fault::delay(1h), .target = "/late"}}));
    std::string bytes = request("PUT", "/v1/kv/held", "1");
    co_await clients[2]->send(std::move(bytes));
    bytes = request("PUT", "/v1/kv/late", "1");
    co_await clients[3]->send(std::move(bytes));
    co_await clients[4]->send("PUT /v1/kv");
    co_await until("all is under way", [&] {
      const auto now = consul.statistics();
      return now.connections == 6 && now.blocked == 1 && now.frozen == 1 && now.faults == 3;
    });
  }
  std::vector<std::unique_ptr<raw_client>> clients;
};

void begin_and_stop(asio::io_context& io, things_under_way& things, server& consul) {
  asio::co_spawn(io, things.begin(consul), [&](std::exception_ptr failure) {
    io.stop();
    if (failure) std::rethrow_exception(failure);
  });
  io.run_for(scaled(20s));
  BOOST_REQUIRE(consul.statistics().frozen == 1u);
}

/// Returns true if nothing listens there. It connects without a context that runs.
bool refuses(const std::string& address) {
  asio::io_context io;
  asio::ip::tcp::socket socket(io);
  error_code ec;
  socket.connect({asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(std::stoi(address.substr(10)))}, ec);
  return ec == asio::error::connection_refused;
}

}  // namespace

ASYNC_TEST_CASE(with_a_thread_of_its_own_it_ends_at_once, 20s) {
  std::optional<server> consul(std::in_place);
  things_under_way things(ex, consul->address());
  co_await things.begin(*consul);
  const auto begun = std::chrono::steady_clock::now();
  consul.reset();
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 10s));
  for (const auto& each : things.clients) {
    const received end = co_await each->receive();
    BOOST_TEST(static_cast<bool>(end.end));
  }
}

ASYNC_TEST_CASE(it_ends_while_several_threads_run_its_context, 60s, 3) {
  for (int i = 0; i < 10; ++i) {
    std::optional<server> consul(std::in_place, off_strand(ex));
    const std::string address = consul->address();
    things_under_way things(ex, address);
    co_await things.begin(*consul);
    consul->answer_blocked(500, "x");
    consul.reset();
    for (std::size_t which = 0; which < things.clients.size(); ++which) {
      const received last = co_await things.clients[which]->receive_all();
      const bool told = which == 1 && last.status() == 500 && last.body() == "x";  // the query, if that came first
      BOOST_TEST((told || last.bytes.empty()), "client " << which << " was told " << last.bytes);
    }
    raw_client late(ex, address);
    const error_code ec = co_await late.connect();
    BOOST_TEST(ec == asio::error::connection_refused);
  }
}

BOOST_AUTO_TEST_CASE(the_context_goes_first) {
  std::optional<asio::io_context> io(std::in_place);
  server consul(io->get_executor());
  {
    things_under_way things(io->get_executor(), consul.address());
    begin_and_stop(*io, things, consul);
  }
  io.reset();
  BOOST_TEST(consul.statistics().connections == 0u);
  write(consul, "k", "1");
  BOOST_TEST(value_of(consul, "k") == "1");
  consul.set_faults(fault_plan::random(1, 1));
  consul.freeze();
  consul.thaw();
  consul.cut();
  consul.answer_blocked(500, "");
  consul.stop();
  consul.start();
  BOOST_TEST(consul.address().starts_with("127.0.0.1:"));
}

BOOST_AUTO_TEST_CASE(the_context_never_runs) {
  asio::io_context io;
  server consul(io.get_executor());
  const std::string address = consul.address();
  write(consul, "k", "1");
  consul.cut();
  consul.stop();
  BOOST_TEST(refuses(address));
  consul.start();
  BOOST_TEST(!refuses(address));
  BOOST_TEST(consul.address() == address);
  BOOST_TEST(value_of(consul, "k") == "1");
  BOOST_TEST(consul.statistics().connections == 0u);  // the system accepts the connection, and the server does not run
}

BOOST_AUTO_TEST_CASE(all_members_from_many_threads) {
  asio::io_context io;
  server own;
  server in_context(io.get_executor());
  auto work = asio::make_work_guard(io);
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
  for (server* const consul : {&own, &in_context}) {
    threads.emplace_back([consul] {
      for (int i = 0; i < 50; ++i) {
        consul->set_faults(fault_plan::random(static_cast<std::uint64_t>(i) + 1, 0.2, 1ms));
        consul->freeze();
        write(*consul, "k", std::to_string(i));
        consul->answer_blocked(500, "x");
        consul->thaw();
        if (i % 10 == 0) consul->cut();
        if (i % 25 == 0) consul->stop();
        static_cast<void>(consul->statistics());
        consul->start();
        std::this_thread::sleep_for(1ms);
      }
      consul->set_faults({});
    });
    threads.emplace_back([consul] {
      asio::io_context mine;
      consul::client client(mine, consul->client_config());
      for (int i = 0; i < 10; ++i) {
        asio::co_spawn(
            mine,
            [&client]() -> asio::awaitable<void> {
              for (int n = 0; n < 30; ++n) {
                const consul::request_options once{.timeout = 1s, .retry = false};
                co_await client.put("k", "v", 0, once, as_result);
                consul::read_options watch;
                watch.index = 1000;
                watch.wait = 2ms;
                watch.request = once;
                co_await client.get("k", watch, as_result);
              }
            },
            asio::detached);
      }
      mine.run();
    });
  }
  for (std::size_t i = 2; i < threads.size(); ++i) threads[i].join();
  work.reset();
  io.stop();
  threads[0].join();
  threads[1].join();
  BOOST_TEST(own.statistics().requests > 0u);
  BOOST_TEST(in_context.statistics().requests > 0u);
}

BOOST_AUTO_TEST_SUITE_END()

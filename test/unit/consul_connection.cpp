// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Connecting to a host with several addresses.

#include "consul/connections/connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include "support/async.hpp"
#include "support/black_hole.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul::detail;
using holdfast::error_code;
using holdfast::test::black_hole;
using holdfast::test::scripted_peer;
using holdfast::test::scripted_server;

namespace {

asio::awaitable<error_code> connect(asio::any_io_executor ex, connection::endpoints candidates,
                                    std::chrono::milliseconds limit, std::string tunnel = {}) {
  const strand_type strand(ex);
  const auto link = std::make_shared<connection>(strand, std::make_shared<counters>(), 1024);
  error_code result;
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  asio::co_spawn(strand, link->connect(std::move(candidates), clock::now() + limit, agent_address(), tunnel),
                 [&](const std::exception_ptr& failure, const attempt_result& outcome) {
                   BOOST_TEST(!failure);
                   result = outcome.cause;
                   done.cancel();
                 });
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_connection)

ASYNC_TEST_CASE(a_silent_address_leaves_time_for_the_next, 10s) {
  const black_hole silent(ex);
  const scripted_server server(ex);
  const connection::endpoints candidates{silent.endpoint(), silent.endpoint(), server.endpoint()};
  const auto begun = clock::now();
  const error_code ec = co_await connect(ex, candidates, 3s);
  BOOST_TEST(!ec);
  BOOST_TEST((clock::now() - begun >= 1900ms), "each has its third");
}

ASYNC_TEST_CASE(a_refusal_leaves_its_time_to_the_next, 10s) {
  scripted_server gone(ex);
  const auto refusing = gone.endpoint();
  gone.stop();
  const scripted_server server(ex);
  const connection::endpoints candidates{refusing, server.endpoint()};
  const error_code ec = co_await connect(ex, candidates, 3s);
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(silent_addresses_only_end_at_the_deadline, 10s) {
  const black_hole silent(ex);
  // If each address had the whole limit, 200 addresses would take 40 s.
  for (const std::size_t count : {2u, 200u}) {
    const connection::endpoints candidates(count, silent.endpoint());
    const auto begun = clock::now();
    const error_code ec = co_await connect(ex, candidates, 200ms);
    const auto took = clock::now() - begun;
    BOOST_TEST(ec == asio::error::timed_out);
    BOOST_TEST((took >= 200ms));
    BOOST_TEST((took < 10s));
  }
}

namespace {

// Answers the request to a proxy after this time.
asio::awaitable<void> open_tunnel(scripted_server& proxy, std::chrono::milliseconds after) {
  scripted_peer peer = co_await proxy.accept();
  const std::string request = co_await peer.read_request();
  BOOST_TEST(request.starts_with("CONNECT "));
  asio::steady_timer timer(co_await asio::this_coro::executor, after);
  co_await timer.async_wait(asio::use_awaitable);
  co_await peer.send("HTTP/1.1 200 OK\r\n\r\n");
}

const std::string tunnel = "CONNECT a:1 HTTP/1.1\r\n\r\n";

}  // namespace

// The handshakes after that of TCP take longer than an equal part of the time limit.
ASYNC_TEST_CASE(an_address_that_answers_has_the_time_of_those_behind_it, 10s) {
  const black_hole silent(ex);
  scripted_server proxy(ex);
  asio::co_spawn(ex, open_tunnel(proxy, 600ms), asio::detached);
  connection::endpoints candidates{proxy.endpoint()};
  candidates.insert(candidates.end(), 9, silent.endpoint());
  const error_code ec = co_await connect(ex, candidates, 3s, tunnel);
  BOOST_TEST(!ec);
}

// The kernel of a frozen process still accepts connections.
ASYNC_TEST_CASE(a_frozen_address_leaves_time_for_those_behind_it, 10s) {
  const scripted_server frozen(ex);
  scripted_server proxy(ex);
  asio::co_spawn(ex, open_tunnel(proxy, 0ms), asio::detached);
  const connection::endpoints candidates{frozen.endpoint(), frozen.endpoint(), proxy.endpoint()};
  const error_code ec = co_await connect(ex, candidates, 1s, tunnel);
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(many_silent_addresses_have_a_least_time_each, 10s) {
  const black_hole silent(ex);
  const scripted_server server(ex);
  connection::endpoints candidates(100, silent.endpoint());
  const strand_type strand(ex);
  const auto link = std::make_shared<connection>(strand, std::make_shared<counters>(), 1024);
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  asio::co_spawn(strand, link->connect(candidates, clock::now() + 1s, agent_address()),
                 [&](const std::exception_ptr&, const attempt_result& outcome) {
                   BOOST_TEST(outcome.cause == asio::error::timed_out);
                   done.cancel();
                 });
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  BOOST_TEST(link->unresponsive().size() <= 5u);  // the transport puts these behind the others the next time
  BOOST_TEST(!link->unresponsive().empty());
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which idle connection a request gets, and when idle connections are closed.

#include "consul/connections/idle_connections.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

using namespace holdfast::consul::detail;
using namespace std::chrono_literals;
using holdfast::test::pause;
using holdfast::test::scripted_peer;
using holdfast::test::scripted_server;

namespace {

constexpr auto ordinary = connection_class::ordinary;
constexpr auto renewal = connection_class::renewal;
constexpr auto blocking = connection_class::blocking;

struct idle_under_test {
  explicit idle_under_test(const asio::any_io_executor& ex, clock::duration idle_max = 1min)
      : strand(ex), server(ex), idle(strand, owner, idle_max) {}

  /// Opens a connection. The server's end is the last of `peers`.
  asio::awaitable<std::shared_ptr<connection>> open() {
    const auto link = std::make_shared<connection>(strand, statistics, 1024);
    bool is_open = false;
    asio::co_spawn(strand, link->connect({server.endpoint()}, clock::now() + 5s, agent_address()),
                   [&is_open](const std::exception_ptr& failure, const attempt_result& result) {
                     is_open = !failure && !result.error;
                   });
    scripted_peer peer = co_await server.accept();
    peers.push_back(std::move(peer));
    while (!is_open) co_await pause(1ms);
    co_return link;
  }
  std::size_t open_connections() const { return statistics->connections_open; }

  const strand_type strand;
  const std::shared_ptr<void> alive = std::make_shared<char>();
  const std::weak_ptr<void> owner = alive;
  const std::shared_ptr<counters> statistics = std::make_shared<counters>();
  scripted_server server;
  std::vector<scripted_peer> peers;
  idle_connections idle;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_idle_connections)

ASYNC_TEST_CASE(the_connection_used_last_is_taken_first) {
  idle_under_test t(ex);
  const auto first = co_await t.open();
  const auto second = co_await t.open();
  t.idle.keep(first, 0, ordinary);
  t.idle.keep(second, 0, blocking);
  BOOST_TEST(t.idle.size(ordinary) == 2u);
  BOOST_TEST(t.idle.size(blocking) == 2u, "they share a list");
  BOOST_TEST((t.idle.take(0, ordinary, false) == second));
  BOOST_TEST((t.idle.take(0, blocking, false) == first));
  BOOST_TEST((t.idle.take(0, ordinary, true) == nullptr));
}

ASYNC_TEST_CASE(a_renewal_borrows_only_if_it_may) {
  idle_under_test t(ex);
  const auto common = co_await t.open();
  const auto own = co_await t.open();
  t.idle.keep(common, 0, ordinary);
  BOOST_TEST((t.idle.take(0, renewal, false) == nullptr));
  t.idle.keep(own, 0, renewal);
  BOOST_TEST((t.idle.take(0, renewal, true) == own));
  BOOST_TEST((t.idle.take(0, renewal, true) == common));
  t.idle.keep(own, 0, renewal);
  BOOST_TEST((t.idle.take(0, ordinary, true) == nullptr), "the others never use that of a renewal");
  BOOST_TEST(t.idle.has_one(0, renewal));
  BOOST_TEST(!t.idle.has_one(0, blocking));
  BOOST_TEST(t.idle.size(renewal) == 1u);
}

ASYNC_TEST_CASE(a_connection_that_is_dead_or_to_another_agent_is_closed) {
  idle_under_test t(ex);
  auto dead = co_await t.open();
  auto good = co_await t.open();
  auto of_another = co_await t.open();
  t.peers[0].close();
  while (dead->is_alive()) co_await pause(1ms);
  t.idle.keep(std::move(good), 0, ordinary);
  t.idle.keep(std::move(dead), 0, ordinary);
  t.idle.keep(std::move(of_another), 1, ordinary);
  BOOST_TEST(t.idle.has_one(0, ordinary));
  BOOST_TEST(t.idle.has_one(1, renewal));
  BOOST_TEST(!t.idle.has_one(2, renewal));
  const auto taken = t.idle.take(0, ordinary, false);
  BOOST_TEST((taken != nullptr));
  BOOST_TEST(t.open_connections() == 1u);
}

ASYNC_TEST_CASE(idle_connections_are_closed_in_time) {
  idle_under_test t(ex, 1s);
  auto first = co_await t.open();
  auto second = co_await t.open();
  t.idle.keep(std::move(first), 0, ordinary);
  t.idle.close_in_time();
  co_await pause(30ms);
  t.idle.keep(std::move(second), 0, renewal);
  t.idle.close_in_time();
  BOOST_TEST(t.idle.size(ordinary) == 1u);
  while (t.open_connections() != 0) co_await pause(1ms);
  BOOST_TEST(t.idle.size(ordinary) == 0u);
  BOOST_TEST(t.idle.size(renewal) == 0u);
}

ASYNC_TEST_CASE(at_rest_only_the_connections_used_last_stay) {
  idle_under_test t(ex, 20ms);
  std::vector<std::shared_ptr<connection>> links;
  for (int i = 0; i < 5; ++i) {
    auto link = co_await t.open();
    links.push_back(std::move(link));
  }
  for (std::size_t i = 0; i < 3; ++i) t.idle.keep(links[i], 0, ordinary);
  for (std::size_t i = 3; i < 5; ++i) t.idle.keep(links[i], 0, renewal);
  t.idle.close_in_time();
  t.idle.rest(2);
  co_await pause(40ms);
  BOOST_TEST(t.idle.size(ordinary) == 2u, "no timer runs");
  BOOST_TEST((t.idle.take(0, renewal, false) == links[4]));
  BOOST_TEST(t.idle.size(renewal) == 0u);
  BOOST_TEST((t.idle.take(0, ordinary, false) == links[2]));
  BOOST_TEST((t.idle.take(0, ordinary, false) == links[1]));
}

ASYNC_TEST_CASE(close_closes_everything) {
  idle_under_test t(ex, 1ms);
  auto first = co_await t.open();
  auto second = co_await t.open();
  t.idle.keep(std::move(first), 0, ordinary);
  t.idle.keep(std::move(second), 0, renewal);
  t.idle.close();
  BOOST_TEST(t.open_connections() == 0u);
  auto late = co_await t.open();
  t.idle.keep(std::move(late), 0, ordinary);
  t.idle.close_in_time();
  co_await pause(10ms);
  BOOST_TEST(t.idle.size(ordinary) == 1u, "the timer is not set any more");
}

BOOST_AUTO_TEST_SUITE_END()

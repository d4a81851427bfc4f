// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The log of a semaphore or a set has a line for each state that changes. The line names the subject.

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(log_lines)

namespace {

using namespace std::chrono_literals;
using namespace holdfast;
namespace asio = boost::asio;
using holdfast::testing::fault;
using holdfast::testing::fault_plan;
using holdfast::testing::server;

using lines = std::vector<std::string>;

std::size_t count(const lines& all, const std::string& part) {
  return static_cast<std::size_t>(std::count_if(
      all.begin(), all.end(), [&](const std::string& line) { return line.find(part) != std::string::npos; }));
}

std::string shown(const lines& all) {
  std::string text;
  for (const std::string& line : all) text += line + '\n';
  return text;
}

asio::awaitable<void> wait(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

// Returns the log of a semaphore that loses its slot, because from some time on every request meets this fault.
asio::awaitable<lines> log_of_a_loss(asio::any_io_executor ex, fault what) {
  lines log;
  testing::server_options quick;
  quick.model.session_ttl_min = 1s;
  server fake(quick);
  consul::client client(ex, fake.client_config());
  semaphore_options options;
  options.prefix = "s";
  options.limit = 1;
  options.session_ttl = 1s;
  options.session_node = "";
  options.log = [&log](const holdfast::log_event& event) { log.push_back(event.text()); };
  semaphore sem(client, options);
  slot held = co_await sem.acquire();
  fake.set_faults(fault_plan({{.what = std::move(what), .times = 0}}));
  co_await held.wait_lost();
  co_await wait(10ms);
  co_return log;
}

}  // namespace

ASYNC_TEST_CASE(a_longer_ttl_is_advised_only_where_consul_had_no_leader, 30s) {
  const lines elected = co_await log_of_a_loss(ex, fault::no_leader());
  BOOST_TEST(count(elected, "lost: lease_expired") == 1u, shown(elected));
  BOOST_TEST(count(elected, "a session_ttl of 30 s outlasts") == 1u, shown(elected));
  const lines revoked = co_await log_of_a_loss(ex, fault::forbidden());
  BOOST_TEST(count(revoked, " lost: ") == 1u, shown(revoked));
  BOOST_TEST(count(revoked, "session_ttl") == 0u, shown(revoked));
}

ASYNC_TEST_CASE(an_agent_that_is_away_and_comes_back_has_two_lines, 30s) {
  lines log;
  server fake;
  consul::client client(ex, fake.client_config());
  semaphore_options options;
  options.prefix = "s";
  options.limit = 2;
  options.log = [&log](const holdfast::log_event& event) { log.push_back(event.text()); };
  semaphore sem(client, options);
  slot one = co_await sem.acquire();
  slot two = co_await sem.acquire();
  co_await wait(50ms);
  fake.stop();
  while (log.empty()) co_await wait(10ms);
  co_await wait(2s);
  BOOST_TEST(log.size() == 1u, shown(log));
  BOOST_TEST(count(log, "watch of s") == 1u, shown(log));
  fake.start();
  while (count(log, "works again") == 0) co_await wait(10ms);
  BOOST_TEST(log.size() == 2u, shown(log));
  BOOST_TEST(one.held());
}

ASYNC_TEST_CASE(each_lock_of_a_set_that_is_lost_is_named, 30s) {
  lines log;
  server fake;
  consul::client client(ex, fake.client_config());
  mutex_set_options options;
  options.prefix = "set";
  options.log = [&log](const holdfast::log_event& event) { log.push_back(event.text()); };
  mutex_set set(client, options);
  std::vector<held_mutex> held;
  constexpr int locks = 20;
  for (int i = 0; i < locks; ++i) {
    held_mutex lock = co_await set.try_lock("lock-" + std::to_string(i));
    held.push_back(std::move(lock));
  }
  fake.with([](auto& store, auto now) { store.write(consul::txn_operation::remove_tree("set"), now); });
  co_await held.back().wait_lost();
  co_await wait(10ms);
  lines lost;
  std::copy_if(log.begin(), log.end(), std::back_inserter(lost),
               [](const std::string& line) { return line.find(" lost: ") != std::string::npos; });
  BOOST_TEST(lost.size() == static_cast<std::size_t>(locks), shown(log));
  BOOST_TEST(std::set<std::string>(lost.begin(), lost.end()).size() == lost.size(), shown(lost));
  for (int i = 0; i < locks; ++i) {
    BOOST_TEST(count(lost, "slot of set/lock-" + std::to_string(i) + " lost") == 1u, shown(lost));
  }
}

BOOST_AUTO_TEST_SUITE_END()

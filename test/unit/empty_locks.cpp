// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Operations of empty objects: default-constructed ones, and those that were moved from.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/administration.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/election.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/prometheus.hpp>
#include <holdfast/semaphore.hpp>
#include <string>
#include <utility>

#include "support/async.hpp"
#include "support/error_of.hpp"

BOOST_AUTO_TEST_SUITE(empty_locks)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;
using test::error_of;

}  // namespace

BOOST_AUTO_TEST_CASE(every_operation_answers) {
  semaphore sem;
  mutex m;
  mutex_set set;
  election candidates;
  election_observer observer = candidates.observe();
  semaphore_administration admin;
  consul::client client;
  BOOST_TEST(error_of([&](auto h) { sem.acquire(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.try_acquire(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.try_acquire_for(1h, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.close(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { m.lock(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { m.try_lock(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { m.close(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { set.try_lock("a", h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { set.close(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { candidates.campaign(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { observer.next(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.inspect(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.resize(1, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { client.get("k", h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { client.put("k", "v", h); }) == error::closed);
  held_mutex held;
  BOOST_TEST(error_of([&](auto h) { held.release(h); }) == error::not_held);
  BOOST_TEST(error_of([&](auto h) { sequencer_of(held, h); }) == error::not_held);
}

BOOST_AUTO_TEST_CASE(a_moved_from_semaphore_answers) {
  asio::io_context io(1);
  semaphore sem(local_store(io), {.prefix = "s", .limit = 1});
  const semaphore other = std::move(sem);
  BOOST_TEST(error_of([&](auto h) { sem.acquire(h); }) == error::closed);
  BOOST_TEST(other.prefix() == "s");
}

BOOST_AUTO_TEST_CASE(other_members_say_nothing) {
  const semaphore sem;
  BOOST_TEST(!sem.get_executor());
  BOOST_TEST(sem.prefix().empty());
  BOOST_TEST(sem.limit() == 0u);
  BOOST_TEST(sem.statistics().held == 0u);
  const election candidates;
  BOOST_TEST(!candidates.get_executor());
  BOOST_TEST(candidates.key().empty());
  BOOST_TEST(candidates.statistics().held == 0u);
  BOOST_TEST(mutex().key().empty());
  BOOST_TEST(mutex_set().prefix().empty());
  BOOST_TEST(!semaphore_administration().get_executor());
  BOOST_TEST(!election_observer().get_executor());
}

BOOST_AUTO_TEST_CASE(an_empty_client_says_nothing) {
  consul::client client;
  BOOST_TEST(!client.get_executor());
  BOOST_TEST(!client.strand());
  BOOST_TEST(client.address().empty());
  BOOST_TEST(client.statistics().requests == 0u);
  BOOST_TEST(client.health().address.empty());
  client.close();
}

BOOST_AUTO_TEST_CASE(an_empty_object_adds_nothing_to_the_metrics) {
  prometheus_text metrics;
  const std::string before = metrics.text();
  metrics.add(semaphore());
  metrics.add(election());
  metrics.add(consul::client(), "empty");
  BOOST_TEST(metrics.text() == before);
}

ASYNC_TEST_CASE(a_coroutine_gets_the_error, 60s) {
  semaphore sem;
  const auto [ec, got] = co_await sem.acquire(test::as_result);
  BOOST_TEST(ec == error::closed);
  BOOST_TEST(!got.held());
}

BOOST_AUTO_TEST_SUITE_END()

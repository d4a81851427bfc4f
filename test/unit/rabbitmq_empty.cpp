// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Operations of empty objects of the RabbitMQ library, as empty_locks.cpp has them for the others.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/prometheus.hpp>
#include <holdfast/rabbitmq/client.hpp>
#include <holdfast/rabbitmq/semaphore.hpp>
#include <holdfast/rabbitmq/semaphore_administration.hpp>
#include <string>
#include <utility>

#include "support/error_of.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_empty)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;
using test::error_of;

}  // namespace

BOOST_AUTO_TEST_CASE(every_operation_answers) {
  rabbitmq::semaphore sem;
  BOOST_TEST(error_of([&](auto h) { sem.acquire(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.try_acquire(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.try_acquire_for(1h, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { sem.close(h); }) == error::closed);
  rabbitmq::slot none;
  BOOST_TEST(error_of([&](auto h) { none.release(h); }) == error::not_held);
  rabbitmq::semaphore_administration admin;
  BOOST_TEST(error_of([&](auto h) { admin.create(1, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.grow(1, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.shrink(1, h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.destroy(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.inspect(h); }) == error::closed);
  BOOST_TEST(error_of([&](auto h) { admin.wait_until_released(1, 1h, h); }) == error::closed);
}

BOOST_AUTO_TEST_CASE(other_members_say_nothing) {
  const rabbitmq::semaphore sem;
  BOOST_TEST(!sem.get_executor());
  BOOST_TEST(sem.name().empty());
  BOOST_TEST(sem.statistics().held == 0u);
  BOOST_TEST(!rabbitmq::semaphore_administration().get_executor());
  BOOST_TEST(rabbitmq::slot().number() == 0u);
}

BOOST_AUTO_TEST_CASE(a_moved_from_client_says_nothing) {
  asio::io_context io(1);
  rabbitmq::config settings;
  settings.address = "amqp://127.0.0.1:1";
  rabbitmq::client client(io, settings);
  const rabbitmq::client other = std::move(client);
  BOOST_TEST(!client.get_executor());  // NOLINT(bugprone-use-after-move): that is what this is about
  BOOST_TEST(client.name().empty());
  BOOST_TEST(client.statistics().connections_opened == 0u);
  client.close();
  prometheus_text metrics;
  const std::string before = metrics.text();
  add_to(metrics, client, "empty");
  BOOST_TEST(metrics.text() == before);
}

BOOST_AUTO_TEST_SUITE_END()

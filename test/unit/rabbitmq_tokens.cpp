// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The same as tokens.cpp, for the operations of the library holdfast::rabbitmq.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/rabbitmq.hpp>
#include <holdfast/testing/broker.hpp>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_tokens)

namespace {

namespace asio = boost::asio;

/// One of each class with operations, by its name.
struct one_of_each {
  holdfast::rabbitmq::semaphore& semaphore;
  holdfast::rabbitmq::semaphore_administration& semaphore_administration;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"  // what clang calls it

/// `token` is one token or none.
template <class... Token>
void begin_each(one_of_each of, Token... token) {
  of.semaphore.acquire(token...);
  of.semaphore.acquire({}, token...);
  of.semaphore.try_acquire(token...);
  of.semaphore.try_acquire({}, token...);
  of.semaphore.try_acquire_for(std::chrono::seconds(1), token...);
  of.semaphore.try_acquire_for(std::chrono::seconds(1), {}, token...);
  of.semaphore_administration.create(1, token...);
  of.semaphore_administration.create(1, {}, token...);
  of.semaphore_administration.grow(1, token...);
  of.semaphore_administration.grow(1, {}, token...);
  of.semaphore_administration.shrink(1, token...);
  of.semaphore_administration.shrink(1, {}, token...);
  of.semaphore_administration.destroy(token...);
  of.semaphore_administration.destroy(1, token...);
  of.semaphore_administration.destroy(1, {}, token...);
  of.semaphore_administration.inspect(token...);
  of.semaphore_administration.inspect(holdfast::operation_options(), token...);
  of.semaphore_administration.wait_until_released(1, token...);
  of.semaphore_administration.wait_until_released(1, std::chrono::seconds(1), token...);
  of.semaphore_administration.wait_until_released(1, std::chrono::seconds(1), {}, token...);
  of.semaphore_administration.wait_until_drained(token...);
  of.semaphore_administration.wait_until_drained(std::chrono::seconds(1), token...);
  of.semaphore_administration.wait_until_drained(std::chrono::seconds(1), {}, token...);
}

#pragma GCC diagnostic pop

// It is compiled, and not run.
[[maybe_unused]] void begin_with_each_token(one_of_each of) {
  begin_each(of);
  begin_each(of, asio::deferred);
  begin_each(of, asio::use_awaitable);
  begin_each(of, asio::use_future);
  begin_each(of, asio::as_tuple(asio::deferred));
}

}  // namespace

ASYNC_TEST_CASE(an_operation_without_a_token_can_be_awaited) {
  const holdfast::testing::broker on(ex);
  holdfast::rabbitmq::client client(ex, {.address = on.url()});
  holdfast::rabbitmq::semaphore_administration admin(client, {.name = "jobs"});
  co_await admin.create(1);
  const auto status = co_await admin.inspect();
  BOOST_TEST(status.slots == 1u);
  client.close();
}

BOOST_AUTO_TEST_SUITE_END()

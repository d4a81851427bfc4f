// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Bad tests, each of which run_async must report: unit/async_runner.cpp runs them one by one. A case
// that hangs calls `run_async` itself, because ASYNC_TEST_CASE would give it much more time.

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <stdexcept>

#include "support/async.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

asio::awaitable<void> sleep(std::chrono::milliseconds duration) {
  const auto ex = co_await asio::this_coro::executor;
  asio::steady_timer timer(ex, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(async_runner)

asio::awaitable<void> sleep_long(asio::any_io_executor) { co_await sleep(1h); }
BOOST_AUTO_TEST_CASE(hang) { holdfast::test::run_async(sleep_long, 100ms); }
BOOST_AUTO_TEST_CASE(hang_threaded) { holdfast::test::run_async(sleep_long, 100ms, 2); }

asio::awaitable<void> ignore_cancellation(asio::any_io_executor) {
  for (;;) {
    try {
      co_await sleep(20ms);
      // NOLINTNEXTLINE(bugprone-empty-catch): as a careless library does
    } catch (const boost::system::system_error&) {
    }
    co_await asio::this_coro::reset_cancellation_state();
  }
}
BOOST_AUTO_TEST_CASE(swallow) { holdfast::test::run_async(ignore_cancellation, 100ms); }
BOOST_AUTO_TEST_CASE(swallow_threaded) { holdfast::test::run_async(ignore_cancellation, 100ms, 2); }

ASYNC_TEST_CASE(exception) {
  co_await sleep(1ms);
  throw std::runtime_error("thrown on purpose");
}
ASYNC_TEST_CASE(exception_threaded, 5s, 2) {
  co_await sleep(1ms);
  throw std::runtime_error("thrown on purpose");
}
ASYNC_TEST_CASE(exception_of_a_handler) {
  asio::post(ex, [] { throw std::runtime_error("thrown by a handler"); });
  co_await sleep(1h);
}

ASYNC_TEST_CASE(check) {
  co_await sleep(1ms);
  BOOST_TEST(1 == 2);
}
ASYNC_TEST_CASE(require) {
  co_await sleep(1ms);
  BOOST_REQUIRE(3 == 4);
}
ASYNC_TEST_CASE(require_threaded, 5s, 2) {
  co_await sleep(1ms);
  BOOST_REQUIRE(5 == 6);
}

BOOST_AUTO_TEST_SUITE_END()

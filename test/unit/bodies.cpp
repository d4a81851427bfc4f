// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Only a loss of the slot cancels the body of `with_slot`.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <exception>
#include <holdfast/election.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/with_slot.hpp>
#include <optional>
#include <utility>

#include "support/async.hpp"
#include "support/participant.hpp"

BOOST_AUTO_TEST_SUITE(bodies)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options options() {
  semaphore_options its;
  its.prefix = "s";
  its.limit = 1;
  return its;
}

}  // namespace

ASYNC_TEST_CASE(a_body_that_releases_its_slot_goes_on, 60s) {
  semaphore sem(local_store(ex), options());
  bool finished = false;
  auto body = [&](slot& its) -> asio::awaitable<void> {
    co_await its.release();
    co_await test::pause(1ms);
    finished = true;
  };
  co_await with_slot(sem, body);
  BOOST_TEST(finished);
  BOOST_TEST(sem.statistics().held == 0u);
}

ASYNC_TEST_CASE(also_a_body_that_drops_it, 60s) {
  semaphore sem(local_store(ex), options());
  bool finished = false;
  auto body = [&](slot& its) -> asio::awaitable<void> {
    { const slot mine = std::move(its); }
    co_await test::pause(1ms);
    finished = true;
  };
  co_await with_slot(sem, body);
  BOOST_TEST(finished);
}

ASYNC_TEST_CASE(a_slot_that_was_moved_out_stays_held, 60s) {
  semaphore sem(local_store(ex), options());
  slot mine;
  auto body = [&](slot& its) -> asio::awaitable<void> {
    mine = std::move(its);
    co_return;
  };
  co_await with_slot(sem, body);
  BOOST_TEST(mine.held());
}

ASYNC_TEST_CASE(its_loss_ends_the_body, 60s) {
  const local_store store(ex);
  semaphore sem(store, options());
  slot mine;
  bool finished = false;
  auto body = [&](slot& its) -> asio::awaitable<void> {
    mine = std::move(its);
    store.end_sessions();
    co_await test::pause(1h);
    finished = true;
  };
  std::optional<loss_reason> lost;
  try {
    co_await with_slot(sem, body);
  } catch (const slot_lost_error& why) {
    lost = why.reason();
  }
  BOOST_TEST(!finished);
  BOOST_TEST((lost == loss_reason::session_invalidated));
}

ASYNC_TEST_CASE(a_mutex_and_a_leadership_too, 60s) {
  const local_store store(ex);
  mutex m(store, {.key = "m"});
  const election candidates(store, {.key = "e"});
  int finished = 0;
  auto body = [&](hold& its) -> asio::awaitable<void> {
    co_await its.release();
    co_await test::pause(1ms);
    ++finished;
  };
  co_await with_lock(m, body);
  co_await with_leadership(candidates, "a", body);
  BOOST_TEST(finished == 2);
}

ASYNC_TEST_CASE(a_cancellation_of_the_caller_reaches_the_body, 60s) {
  semaphore sem(local_store(ex), options());
  asio::cancellation_signal stop;
  bool finished = false;
  auto body = [&](slot&) -> asio::awaitable<void> {
    asio::post(ex, [&] { stop.emit(asio::cancellation_type::terminal); });
    co_await test::pause(1h);
    finished = true;
  };
  auto work = [&]() -> asio::awaitable<void> { co_await with_slot(sem, body); };
  auto [failure] =
      co_await asio::co_spawn(ex, work, asio::bind_cancellation_slot(stop.slot(), asio::as_tuple(asio::use_awaitable)));
  error_code ended;
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const system_error& why) {
    ended = why.code();
  }
  BOOST_TEST(ended == asio::error::operation_aborted);
  BOOST_TEST(!finished);
  BOOST_TEST(sem.statistics().held == 0u);
}

BOOST_AUTO_TEST_CASE(the_context_of_the_client_goes_first) {
  asio::io_context app(1);
  std::optional<asio::io_context> own(std::in_place, 1);
  semaphore sem(local_store(*own), options());
  slot held;
  sem.acquire([&](error_code, slot its) { held = std::move(its); });
  while (!held.held()) BOOST_REQUIRE(own->run_one_for(test::scaled(60s)) == 1u);
  bool begun = false, finished = false;
  std::optional<loss_reason> lost;
  auto body = [&](slot&) -> asio::awaitable<void> {
    begun = true;
    co_await test::pause(1h);
    finished = true;
  };
  auto work = [&]() -> asio::awaitable<void> {
    try {
      co_await with_slot(std::move(held), body);
    } catch (const slot_lost_error& why) {
      lost = why.reason();
    }
  };
  asio::co_spawn(app, work, [](const std::exception_ptr& failure) { BOOST_TEST(!failure); });
  while (!begun) BOOST_REQUIRE(app.run_one_for(test::scaled(60s)) == 1u);
  own.reset();
  while (!lost) BOOST_REQUIRE(app.run_one_for(test::scaled(60s)) == 1u);
  BOOST_TEST((lost == loss_reason::closed));
  BOOST_TEST(!finished);
}

// A handler that was still pending at the client would refer to a context that is destroyed.
BOOST_AUTO_TEST_CASE(nothing_is_pending_when_it_returns) {
  std::optional<asio::io_context> app(std::in_place, 1);
  asio::io_context own(1);
  const local_store store(own);
  semaphore sem(store, options());
  slot mine;
  auto body = [&](slot& its) -> asio::awaitable<void> {
    mine = std::move(its);
    co_return;
  };
  bool returned = false;
  auto work = [&]() -> asio::awaitable<void> { co_await with_slot(sem, body); };
  asio::co_spawn(*app, work, [&](const std::exception_ptr& failure) {
    BOOST_TEST(!failure);
    returned = true;
  });
  while (!returned) {
    own.restart();
    own.poll_one();
    app->restart();
    app->poll_one();
  }
  app.reset();
  mine = {};
  bool closed = false;
  sem.close([&](error_code) { closed = true; });
  own.restart();
  while (!closed) BOOST_REQUIRE(own.run_one_for(test::scaled(60s)) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

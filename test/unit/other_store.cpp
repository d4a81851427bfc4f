// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Locks on a store other than Consul. They use a store only by the interface of src/runtime/store.hpp.

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/election.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/semaphore.hpp>

#include "support/async.hpp"
#include "support/memory_store.hpp"

BOOST_AUTO_TEST_SUITE(other_store)

namespace {

using namespace holdfast;
using holdfast::test::as_result;
using holdfast::test::memory_store;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options of_one_slot() {
  semaphore_options options;
  options.prefix = "s";
  options.limit = 1;
  return options;
}

ASYNC_TEST_CASE(a_slot_goes_from_one_semaphore_to_another) {
  const memory_store where(ex);
  semaphore first(where, of_one_slot());
  semaphore second(where, of_one_slot());
  slot held = co_await first.acquire(asio::use_awaitable);
  slot none = co_await second.try_acquire(asio::use_awaitable);
  BOOST_TEST(!none.held());
  BOOST_TEST(where.model().list("s/").value.size() == 2u);
  co_await held.release(asio::use_awaitable);
  slot next = co_await second.acquire(asio::use_awaitable);
  BOOST_TEST(next.held());
  co_await next.release(asio::use_awaitable);
  co_await first.close(asio::use_awaitable);
  co_await second.close(asio::use_awaitable);
  BOOST_TEST(where.model().sessions().value.empty());
}

ASYNC_TEST_CASE(whoever_waits_hears_of_a_release_by_its_watch) {
  using namespace asio::experimental::awaitable_operators;
  const memory_store where(ex);
  semaphore first(where, of_one_slot());
  semaphore second(where, of_one_slot());
  slot held = co_await first.acquire(asio::use_awaitable);
  auto wait = [](semaphore& sem, slot& had) -> asio::awaitable<void> {
    had = co_await sem.acquire(asio::use_awaitable);
  };
  auto let_go = [](const memory_store& store, slot& had) -> asio::awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (store.model().list("s/").value.size() < 3) {
      timer.expires_after(1ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
    co_await had.release(asio::use_awaitable);
  };
  slot next;
  co_await (wait(second, next) && let_go(where, held));
  BOOST_TEST(next.held());
}

ASYNC_TEST_CASE(a_session_that_ends_takes_what_it_held) {
  const memory_store where(ex);
  mutex_options options;
  options.key = "m";
  mutex m(where, options);
  held_mutex held = co_await m.lock(asio::use_awaitable);
  where.model().expire_sessions(std::chrono::steady_clock::now());
  where.settle();
  const loss_reason why = co_await held.wait_lost(asio::use_awaitable);
  BOOST_TEST(why == loss_reason::session_invalidated);
}

ASYNC_TEST_CASE(a_set_locks_names) {
  const memory_store where(ex);
  mutex_set_options options;
  options.prefix = "jobs";
  mutex_set here(where, options);
  mutex_set there(where, options);
  held_mutex held = co_await here.try_lock("a", asio::use_awaitable);
  BOOST_TEST(held.held());
  held_mutex other = co_await there.try_lock("a", asio::use_awaitable);
  BOOST_TEST(!other.held());
}

ASYNC_TEST_CASE(an_observer_sees_who_leads_and_what_is_proclaimed) {
  const memory_store where(ex);
  election_options options;
  options.key = "leader";
  election candidate(where, options);
  election_observer seen = candidate.observe();
  auto nobody = co_await seen.next(asio::use_awaitable);
  BOOST_TEST(!nobody.has_value());
  leadership won = co_await candidate.campaign("a", asio::use_awaitable);
  auto first = co_await seen.next(asio::use_awaitable);
  BOOST_TEST_REQUIRE(first.has_value());
  BOOST_TEST(first->value == "a");
  co_await won.proclaim("b", asio::use_awaitable);
  auto second = co_await seen.next(asio::use_awaitable);
  BOOST_TEST_REQUIRE(second.has_value());
  BOOST_TEST(second->value == "b");
}

ASYNC_TEST_CASE(an_observer_that_is_cancelled_asks_no_more) {
  using namespace asio::experimental::awaitable_operators;
  const memory_store where(ex);
  election_observer seen(where, "leader");
  co_await seen.next(asio::use_awaitable);
  asio::steady_timer soon(ex, 5ms);
  auto ended = co_await (seen.next(as_result) || soon.async_wait(as_result));
  BOOST_TEST(ended.index() == 1u);
  asio::steady_timer again(ex, 5ms);
  auto next = co_await (seen.next(as_result) || again.async_wait(as_result));
  BOOST_TEST(next.index() == 1u);  // the turn was released: not too_many_waiters
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()

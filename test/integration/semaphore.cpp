// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The semaphore as its users see it, on a real agent.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <thread>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

/// A coroutine that a test can cancel.
class cancellable {
public:
  cancellable(asio::any_io_executor ex, asio::awaitable<void> body) : ended_(ex, clock::time_point::max()) {
    asio::co_spawn(ex, std::move(body), asio::bind_cancellation_slot(signal_.slot(), [this](std::exception_ptr e) {
                     failure_ = e;
                     done_ = true;
                     ended_.cancel();
                   }));
  }
  cancellable(const cancellable&) = delete;
  cancellable& operator=(const cancellable&) = delete;

  void cancel() { signal_.emit(asio::cancellation_type::terminal); }
  asio::awaitable<error_code> result() {
    while (!done_) co_await ended_.async_wait(as_result);
    try {
      if (failure_) std::rethrow_exception(failure_);
    } catch (const system_error& e) {
      co_return e.code();
    }
    co_return error_code();
  }

private:
  asio::cancellation_signal signal_;
  asio::steady_timer ended_;
  bool done_ = false;
  std::exception_ptr failure_;
};

asio::awaitable<void> forever(bool& cancelled) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  asio::steady_timer never(ex, clock::time_point::max());
  auto [ec] = co_await never.async_wait(as_result);
  cancelled = ec == asio::error::operation_aborted;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(semaphore)

ASYNC_TEST_CASE(a_slot_is_acquired_and_released, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("acquire-release");
  participant p(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  BOOST_TEST(held.held());
  BOOST_TEST((held.state() == slot_state::held));
  BOOST_TEST((held.valid_for() > 1s));
  BOOST_TEST((held.valid_for() < scaled(10s)));
  BOOST_TEST(held.count() == 1u);
  BOOST_TEST(held.fencing_token().grant != 0u);
  BOOST_TEST(!held.stop_token().stop_requested());
  BOOST_TEST(p.sem.statistics().held == 1u);

  const std::vector<std::string> named = holders(a, prefix);
  BOOST_TEST(named == contenders(a, prefix));
  BOOST_TEST(named == sessions(a, prefix));
  BOOST_REQUIRE(named.size() == 1u);
  BOOST_TEST(record(a, prefix) == R"({"Limit":1,"Holders":{")" + named[0] + R"(":true}})");

  co_await held.release();
  BOOST_TEST((held.state() == slot_state::released));
  BOOST_TEST(!held.held());
  BOOST_TEST((held.valid_for() == 0ns));
  BOOST_TEST(record(a, prefix) == R"({"Limit":1,"Holders":{}})");
  BOOST_TEST(contenders(a, prefix).empty());
  BOOST_TEST(sessions(a, prefix).size() == 1u);  // kept warm
  co_await p.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

ASYNC_TEST_CASE(releasing_twice_is_an_error, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("twice"), 1));
  slot held = co_await p.sem.acquire();
  co_await held.release();
  auto [again] = co_await held.release(as_result);
  BOOST_TEST(again == error::not_held);
  slot empty;
  auto [nothing] = co_await empty.release(as_result);
  BOOST_TEST(nothing == error::not_held);
  slot first = co_await p.sem.acquire();
  slot second = std::move(first);
  // NOLINTNEXTLINE(bugprone-use-after-move): a moved-from slot has to answer, too
  auto [moved] = co_await first.release(as_result);
  BOOST_TEST(moved == error::not_held);
  BOOST_TEST(second.held());
  co_await second.release();
  auto [ec, reason] = co_await second.wait_lost(as_result);
  BOOST_TEST(ec == error::not_held);
}

ASYNC_TEST_CASE(two_releases_at_once_give_one_slot_back, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("two-releases"), 2));
  slot mine = co_await p.sem.acquire();
  slot other = co_await p.sem.acquire();
  pending<> first(ex, mine.release());
  pending<> second(ex, mine.release());
  const error_code one = co_await first.wait();
  const error_code two = co_await second.wait();
  BOOST_TEST(!one);
  BOOST_TEST(two == error::not_held);
  BOOST_TEST(other.held());
  const acquire_options both{.count = 2};
  slot all = co_await p.sem.try_acquire(both);
  BOOST_TEST(!all.valid());
}

ASYNC_TEST_CASE(with_slot_leaves_its_callers_cancellation_as_it_was, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("with-slot-again"), 1));
  slot held;
  bool second = false, inside = false, cancelled = false;
  auto body = [](slot&) -> asio::awaitable<void> { co_await pause(1ms); };
  auto wait = [&](slot&) -> asio::awaitable<void> {
    inside = true;
    co_await forever(cancelled);
  };
  auto turns = [&]() -> asio::awaitable<void> {
    co_await with_slot(p.sem, body);
    second = true;
    co_await with_slot(p.sem, wait);
  };
  // In the body of the second turn,
  cancellable one(ex, turns());
  co_await until("the second turn", [&] { return inside; });
  one.cancel();
  co_await one.result();
  BOOST_TEST(cancelled);

  // and while the caller does something else after it.
  auto sleep_after = [&]() -> asio::awaitable<void> {
    co_await with_slot(p.sem, body);
    second = true;
    co_await forever(cancelled);
    const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
    BOOST_TEST((state.cancelled() != asio::cancellation_type::none));
  };
  second = cancelled = false;
  cancellable two(ex, sleep_after());
  co_await until("the end of the turn", [&] { return second; });
  two.cancel();
  co_await two.result();
  BOOST_TEST(cancelled);
}

ASYNC_TEST_CASE(with_slot_throws_slot_lost_if_the_lease_ran_out_unnoticed, 30s) {
  participant p(ex, shared_agent(), hasty(unique_prefix("with-slot-late"), 1, 300ms));
  auto body = [](slot& held) -> asio::awaitable<void> {
    std::this_thread::sleep_for(held.valid_for());  // nobody on this thread is told anything meanwhile
    BOOST_TEST(!held.held());
    BOOST_TEST((held.state() == slot_state::lost));
    co_return;
  };
  error_code ec;
  try {
    co_await with_slot(p.sem, body);
  } catch (const system_error& e) {
    ec = e.code();
  }
  BOOST_TEST(ec == error::slot_lost);

  slot held = co_await p.sem.acquire();
  std::this_thread::sleep_for(held.valid_for());
  auto [late] = co_await held.release(as_result);
  BOOST_TEST(late == error::slot_lost);
}

ASYNC_TEST_CASE(cancelling_with_slot_cancels_the_body_and_releases, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("with-slot-cancel");
  participant p(ex, a, calm(prefix, 1));
  bool inside = false, cancelled = false;
  auto body = [&](slot&) -> asio::awaitable<void> {
    inside = true;
    co_await forever(cancelled);
  };
  auto critical = [&]() -> asio::awaitable<void> { co_await with_slot(p.sem, body); };
  cancellable running(ex, critical());
  co_await until("the body runs", [&] { return inside; });
  running.cancel();
  co_await running.result();
  BOOST_TEST(cancelled);
  BOOST_TEST(holders(a, prefix).empty());

  // And while it waits for the slot.
  slot held = co_await p.sem.acquire();
  inside = false;
  cancellable waiting(ex, critical());
  co_await until("it waits", [&] { return p.sem.statistics().waiting == 1; });
  waiting.cancel();
  const error_code ec = co_await waiting.result();
  BOOST_TEST(ec == asio::error::operation_aborted);
  BOOST_TEST(!inside);
  BOOST_TEST(p.sem.statistics().waiting == 0u);
  BOOST_TEST(held.held());
}

ASYNC_TEST_CASE(held_slots_outlive_the_semaphores_handle, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("outlive");
  participant p(ex, a, calm(prefix, 2));
  slot one = co_await p.sem.acquire();
  slot two = co_await p.sem.acquire();
  pending<slot> waiting(ex, p.sem.acquire());
  p.sem = holdfast::semaphore();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(ec == error::closed);
  BOOST_TEST(one.held());
  BOOST_TEST(two.held());
  BOOST_TEST(holders(a, prefix).size() == 2u);
  co_await one.release();
  BOOST_TEST(two.held());
  BOOST_TEST(holders(a, prefix).size() == 1u);
  let_go(two);
  co_await until("nothing is left", [&] { return is_clean(a, prefix); });
}

BOOST_AUTO_TEST_SUITE_END()

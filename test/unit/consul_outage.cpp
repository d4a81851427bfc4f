// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which request tries to reach an agent during an outage, and when the others go on.

#include "consul/agents/outage.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>

#include "support/async.hpp"
#include "support/participant.hpp"

using namespace holdfast::consul::detail;
using namespace std::chrono_literals;
using holdfast::test::pause;

namespace {

struct outage_under_test {
  outage_under_test(const asio::any_io_executor& ex, clock::duration longest)
      : strand(ex), now(strand, owner, longest, longest, random) {}

  /// Waits, and then appends the letter to `order`. The patience is longer than the deadline of a test case, so a
  /// request that goes on only when its patience is over fails the test.
  void wait(char letter, outage::place where, clock::duration patience = 10min) {
    auto body = [](outage& now, outage::place where, time_point deadline) -> awaitable<void> {
      co_await now.wait(where, deadline);
    };
    asio::co_spawn(strand, body(now, where, clock::now() + patience),
                   [this, letter](const std::exception_ptr& failure) {
                     if (failure) std::rethrow_exception(failure);
                     order += letter;
                   });
  }
  asio::awaitable<void> until(std::size_t woken) {
    while (order.size() < woken) co_await pause(1ms);
  }

  const strand_type strand;
  const std::shared_ptr<void> alive = std::make_shared<char>();
  const std::weak_ptr<void> owner = alive;
  std::minstd_rand random{337'897};  // the first pause is 0.6 of the longest one
  outage now;
  std::string order;
};

attempt_result a_failure(bool goes_on = false) {
  attempt_result result;
  result.error = holdfast::error::unreachable;
  result.goes_on = result.shows_no_agent = goes_on;
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_outage)

ASYNC_TEST_CASE(it_begins_with_a_failure_and_ends_for_all) {
  outage_under_test t(ex, 10h);
  BOOST_TEST(!t.now);
  t.now.end();
  t.now.begin_or_prolong(a_failure(true));
  BOOST_TEST(!!t.now);
  BOOST_TEST(t.now.last().error == holdfast::error::unreachable);
  BOOST_TEST(!t.now.last().goes_on);
  BOOST_TEST(!t.now.last().shows_no_agent);
  t.wait('a', outage::place::first);
  t.wait('b', outage::place::last);
  t.wait('c', outage::place::no_turn);
  co_await pause(10ms);
  BOOST_TEST(t.order.empty());
  t.now.end();
  BOOST_TEST(!t.now);
  co_await t.until(3);
}

ASYNC_TEST_CASE(a_request_that_does_not_wait_tries_at_once_but_not_beside_another) {
  outage_under_test t(ex, 10h);
  t.now.begin_or_prolong(a_failure());
  BOOST_TEST(!t.now.may_try(true), "the pause is not over");
  BOOST_TEST(t.now.may_try(false));
  {
    outage::scout one(t.now);
    BOOST_TEST(!one.tries());
    one.begin();
    BOOST_TEST(one.tries());
    BOOST_TEST(!t.now.may_try(false));
    t.wait('a', outage::place::no_turn);
    t.wait('b', outage::place::last);
    co_await pause(10ms);
    BOOST_TEST(t.order.empty());
  }
  co_await t.until(1);
  co_await pause(10ms);
  BOOST_TEST(t.order == "a", "the other one waits for the pause");
  BOOST_TEST(t.now.may_try(false));
  t.now.end();
  co_await t.until(2);
}

ASYNC_TEST_CASE(a_scout_of_an_earlier_outage_does_not_try) {
  outage_under_test t(ex, 10h);
  t.now.begin_or_prolong(a_failure());
  std::optional<outage::scout> one;
  one.emplace(t.now);
  one->begin();
  t.now.end();
  BOOST_TEST(!one->tries());
  t.now.begin_or_prolong(a_failure());
  BOOST_TEST(!one->tries());
  outage::scout other(t.now);
  other.begin();
  one.reset();
  BOOST_TEST(other.tries());
  BOOST_TEST(!t.now.may_try(false));
  co_return;
}

ASYNC_TEST_CASE(turns_come_one_at_a_time_and_renewals_first) {
  outage_under_test t(ex, 0ms);
  t.now.begin_or_prolong(a_failure());
  std::optional<outage::scout> one;
  one.emplace(t.now);
  one->begin();
  t.wait('b', outage::place::last);
  t.wait('c', outage::place::last);
  t.wait('a', outage::place::first);
  co_await pause(10ms);
  BOOST_TEST(t.order.empty());
  for (const std::string expected : {"a", "ab", "abc"}) {
    one.reset();
    co_await t.until(expected.size());
    one.emplace(t.now);
    one->begin();
    t.now.begin_or_prolong(a_failure());
    co_await pause(10ms);
    BOOST_TEST(t.order == expected);
  }
}

ASYNC_TEST_CASE(the_timer_wakes_a_request_after_the_pause) {
  outage_under_test t(ex, 200ms);
  t.now.begin_or_prolong(a_failure());
  t.wait('a', outage::place::last);
  t.wait('b', outage::place::last);
  co_await t.until(1);
  BOOST_TEST(t.order == "a");
  BOOST_TEST(t.now.may_try(true));
  t.now.close();
  t.now.end();
  co_await t.until(2);
}

ASYNC_TEST_CASE(who_waits_goes_on_at_its_deadline) {
  outage_under_test t(ex, 10h);
  t.now.begin_or_prolong(a_failure());
  outage::scout one(t.now);
  one.begin();
  t.wait('a', outage::place::last, 5ms);
  t.wait('b', outage::place::no_turn, 20ms);
  co_await t.until(2);
  BOOST_TEST(t.order == "ab");
  BOOST_TEST(!!t.now);
}

BOOST_AUTO_TEST_SUITE_END()

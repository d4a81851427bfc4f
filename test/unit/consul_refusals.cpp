// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which refusals of connections are believed, and what follows from them.

#include "consul/connections/refusals.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::consul::detail;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(consul_refusals)

const refusals::time_point begun = refusals::time_point() + 1h;

BOOST_AUTO_TEST_CASE(a_certain_refusal_is_believed_and_is_news_once) {
  refusals r(10);
  BOOST_TEST(!r.is_last());
  BOOST_TEST((r.refused(true, true, 5, begun) == refusals::verdict::news));
  BOOST_TEST(r.is_last());
  BOOST_TEST(r.is_pressed(begun));
  BOOST_TEST(r.allowed(begun) == 4u);
  BOOST_TEST((r.changes_at() == begun + concurrency_limit::before_one_more));
  BOOST_TEST((r.refused(true, true, 4, begun + 1s) == refusals::verdict::believed));
  BOOST_TEST(r.allowed(begun + 1s) == 3u);
  const auto later = begun + 1s + concurrency_limit::pressed_for;
  BOOST_TEST(!r.is_pressed(later));
  BOOST_TEST((r.refused(true, true, 4, later) == refusals::verdict::news));
}

const refusals::time_point before = begun - 1s;
const refusals::time_point after = begun + 1ms;

void refuse(refusals& r, unsigned times) {
  for (unsigned i = 0; i != times; ++i) {
    BOOST_TEST((r.refused(false, true, 5, begun) == refusals::verdict::doubted));
    BOOST_TEST(r.is_suspected());
    BOOST_TEST(!r.is_last());
    BOOST_TEST(!r.is_pressed(begun));
    BOOST_TEST(r.allowed(begun) == 10u);
  }
}

BOOST_AUTO_TEST_CASE(others_are_believed_if_they_go_on_while_older_connections_are_served) {
  refusals r(10);
  refuse(r, refusals::believed_after - 1);
  r.answered(before, after);
  BOOST_TEST((r.refused(false, true, 5, begun) == refusals::verdict::news));
  BOOST_TEST(r.is_last());
  BOOST_TEST((r.refused(false, true, 0, begun) == refusals::verdict::believed));
  BOOST_TEST(r.allowed(begun) == concurrency_limit::least);
  r.answered(before, after);
  BOOST_TEST(!r.is_last());
  BOOST_TEST(r.is_suspected());
  BOOST_TEST(r.is_pressed(begun), "the limit stays");
}

BOOST_AUTO_TEST_CASE(an_agent_that_serves_nobody_is_never_believed) {
  refusals r(10);
  refuse(r, 100);
  r.answered(before, before);  // it was asked before that, so the agent may have stopped since then
  refuse(r, 100);
}

BOOST_AUTO_TEST_CASE(a_row_ends_by_itself) {
  refusals r(10);
  refuse(r, refusals::believed_after - 1);
  r.answered(before, after);
  BOOST_TEST((r.refused(false, true, 5, begun + refusals::row_ends_after) == refusals::verdict::doubted));
  BOOST_TEST(!r.goes_on());
}

BOOST_AUTO_TEST_CASE(without_another_connection_only_a_row_is_suspicious) {
  refusals r(10);
  for (unsigned i = 0; i != refusals::believed_after; ++i) {
    BOOST_TEST(!r.is_suspected());
    r.refused(false, false, 0, begun);
  }
  BOOST_TEST(r.is_suspected());
}

BOOST_AUTO_TEST_CASE(a_new_connection_that_is_served_ends_the_row) {
  refusals r(10);
  for (int i = 0; i != 10; ++i) {
    refuse(r, refusals::believed_after - 1);
    r.answered(before, after);
    r.answered(after, after);
    BOOST_TEST(!r.is_suspected());
  }
  refuse(r, refusals::believed_after);
}

BOOST_AUTO_TEST_CASE(those_of_an_agent_that_was_left_are_forgotten) {
  refusals r(10);
  r.refused(true, true, 5, begun);
  r.ceded(begun);
  r.forget();
  BOOST_TEST(!r.is_last());
  BOOST_TEST(!r.is_pressed(begun));
  BOOST_TEST(r.allowed(begun) == 10u);
  BOOST_TEST((r.changes_at() == refusals::time_point::max()));
}

BOOST_AUTO_TEST_CASE(only_old_connections_of_a_client_with_many_are_ceded) {
  refusals r(10);
  std::minstd_rand random(7);
  const std::size_t many = refusals::kept_for_good + 1;
  const auto count = [&](std::chrono::milliseconds age, std::size_t running) {
    int ceded = 0;
    for (int i = 0; i < 100; ++i) ceded += r.is_to_cede(begun, running, begun + age, random) ? 1 : 0;
    return ceded;
  };
  BOOST_TEST(count(1h, refusals::kept_for_good) == 0);
  BOOST_TEST(count(refusals::ceded_after * 5 / 4, many) == 100);
  BOOST_TEST(count(refusals::ceded_after * 3 / 4 - 1ms, many) == 0);
  const int some = count(refusals::ceded_after, many);
  BOOST_TEST(some > 0);
  BOOST_TEST(some < 100);
  r.ceded(begun);
  BOOST_TEST(r.allowed(begun) == 9u);
  BOOST_TEST(r.allowed(begun + concurrency_limit::before_it_is_taken_back) == 10u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/concurrency_limit.hpp"

#include <boost/test/unit_test.hpp>

using holdfast::consul::detail::concurrency_limit;
using namespace std::chrono_literals;

namespace {

constexpr concurrency_limit::time_point noon = concurrency_limit::time_point() + 1h;

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_concurrency_limit)

BOOST_AUTO_TEST_CASE(all_are_allowed_while_nothing_is_refused) {
  concurrency_limit s(32);
  BOOST_TEST(s.allowed(noon) == 32u);
  BOOST_TEST(s.allowed(noon + 1h) == 32u);
  BOOST_TEST(!s.is_pressed(noon));
}

BOOST_AUTO_TEST_CASE(what_is_refused_is_given_up_and_comes_back_slowly) {
  concurrency_limit s(32);
  s.refused(9, noon);
  s.refused(8, noon);
  BOOST_TEST(s.allowed(noon) == 8u);
  BOOST_TEST(s.is_pressed(noon));
  BOOST_TEST(s.allowed(noon + concurrency_limit::before_one_more - 1ms) == 8u);
  BOOST_TEST(s.allowed(noon + concurrency_limit::before_one_more) == 9u);
  BOOST_TEST(s.allowed(noon + 3 * concurrency_limit::before_one_more) == 11u);
  s.refused(10, noon + 3 * concurrency_limit::before_one_more);
  BOOST_TEST(s.allowed(noon + 4 * concurrency_limit::before_one_more - 1ms) == 10u);
  BOOST_TEST(s.allowed(noon + 1h) == 32u);
  BOOST_TEST(!s.is_pressed(noon + 1h));
}

BOOST_AUTO_TEST_CASE(a_late_refusal_raises_nothing) {
  concurrency_limit s(32);
  s.refused(4, noon);
  s.refused(20, noon);
  BOOST_TEST(s.allowed(noon) == 4u);
}

BOOST_AUTO_TEST_CASE(a_few_are_tried_whatever_is_refused) {
  concurrency_limit s(32);
  s.refused(0, noon);
  BOOST_TEST(s.allowed(noon) == concurrency_limit::least);
  concurrency_limit one(1);
  one.refused(0, noon);
  BOOST_TEST(one.allowed(noon) == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_let_go_is_taken_back_after_a_while) {
  concurrency_limit s(4);
  s.ceded(noon);
  s.ceded(noon + 10ms);
  BOOST_TEST(s.allowed(noon + 10ms) == 2u);
  BOOST_TEST(s.allowed(noon + concurrency_limit::before_it_is_taken_back) == 3u);
  BOOST_TEST(s.allowed(noon + concurrency_limit::before_it_is_taken_back + 10ms) == 4u);
  BOOST_TEST(!s.is_pressed(noon));
}

BOOST_AUTO_TEST_SUITE_END()

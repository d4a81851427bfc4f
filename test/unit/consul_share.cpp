#include "consul/share.hpp"

#include <boost/test/unit_test.hpp>

using holdfast::consul::detail::share;
using namespace std::chrono_literals;

namespace {

constexpr share::time_point noon = share::time_point() + 1h;

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_share)

BOOST_AUTO_TEST_CASE(all_are_allowed_while_nothing_is_refused) {
  share s(32);
  BOOST_TEST(s.allowed(noon) == 32u);
  BOOST_TEST(s.allowed(noon + 1h) == 32u);
  BOOST_TEST(!s.is_pressed(noon));
}

BOOST_AUTO_TEST_CASE(what_is_refused_is_given_up_and_comes_back_slowly) {
  share s(32);
  s.refused(9, noon);
  s.refused(8, noon);
  BOOST_TEST(s.allowed(noon) == 8u);
  BOOST_TEST(s.is_pressed(noon));
  BOOST_TEST(s.allowed(noon + share::before_one_more - 1ms) == 8u);
  BOOST_TEST(s.allowed(noon + share::before_one_more) == 9u);
  BOOST_TEST(s.allowed(noon + 3 * share::before_one_more) == 11u);
  s.refused(10, noon + 3 * share::before_one_more);
  BOOST_TEST(s.allowed(noon + 4 * share::before_one_more - 1ms) == 10u);
  BOOST_TEST(s.allowed(noon + 1h) == 32u);
  BOOST_TEST(!s.is_pressed(noon + 1h));
}

BOOST_AUTO_TEST_CASE(a_late_refusal_raises_nothing) {
  share s(32);
  s.refused(4, noon);
  s.refused(20, noon);
  BOOST_TEST(s.allowed(noon) == 4u);
}

BOOST_AUTO_TEST_CASE(a_few_are_tried_whatever_is_refused) {
  share s(32);
  s.refused(0, noon);
  BOOST_TEST(s.allowed(noon) == share::least);
  share one(1);
  one.refused(0, noon);
  BOOST_TEST(one.allowed(noon) == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_let_go_is_taken_back_after_a_while) {
  share s(4);
  s.ceded(noon);
  s.ceded(noon + 10ms);
  BOOST_TEST(s.allowed(noon + 10ms) == 2u);
  BOOST_TEST(s.allowed(noon + share::before_it_is_taken_back) == 3u);
  BOOST_TEST(s.allowed(noon + share::before_it_is_taken_back + 10ms) == 4u);
  BOOST_TEST(!s.is_pressed(noon));
}

BOOST_AUTO_TEST_SUITE_END()

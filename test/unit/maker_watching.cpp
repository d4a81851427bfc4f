// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/maker_watching.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <variant>

// When the shell is asked to watch makers, and when it is asked to stop.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(maker_watching)

namespace {

struct world {
  time_point now{1h};
  context ctx{1};
  core_actions out;
  protocol::maker_watching watching;

  /// '+' if the shell is asked to watch, '-' if it is asked to stop, '=' if it is asked nothing.
  char check(bool waits, bool is_closing = false, duration longest = 10s) {
    out.clear();
    ctx.begin(now, out);
    ctx.forget_times();
    watching.check(ctx, waits, is_closing, longest);
    ctx.end();
    return out.empty() ? '=' : std::get<action::watch_makers>(out.front()).on ? '+' : '-';
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(it_begins_with_a_waiter_and_ends_a_while_after_the_last, world) {
  BOOST_TEST(check(false) == '=');
  BOOST_TEST(check(true) == '+');
  BOOST_TEST(watching.is_needed());
  BOOST_TEST(check(true) == '=');
  BOOST_TEST(check(false) == '=');
  BOOST_TEST(!watching.is_needed());
  BOOST_TEST((ctx.wake() == now + 10s));
  now += 9s;
  BOOST_TEST(check(true) == '=');  // the time begins anew
  BOOST_TEST(check(false) == '=');
  now += 9s;
  BOOST_TEST(check(false) == '=');
  now += 1s;
  BOOST_TEST(check(false) == '-');
  BOOST_TEST((ctx.wake() == never));
}

BOOST_FIXTURE_TEST_CASE(a_closing_pool_watches_nobody, world) {
  check(true);
  BOOST_TEST(check(true, true) == '-');
  BOOST_TEST(check(true, true) == '=');
}

BOOST_FIXTURE_TEST_CASE(without_a_time_it_never_begins, world) { BOOST_TEST(check(true, false, 0s) == '='); }

BOOST_AUTO_TEST_SUITE_END()

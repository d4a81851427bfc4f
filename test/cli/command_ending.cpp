// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/guard/ending.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

namespace {

using namespace std::chrono_literals;
using holdfast::cli::ending;
using step = holdfast::cli::ending::step;

// A grace of 5 s, and SIGKILL 100 ms before the lease is over.
ending with_lease(std::chrono::nanoseconds end) {
  ending it(5s, 100ms);
  it.set_lease_end(end);
  return it;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(command_ending)

BOOST_AUTO_TEST_CASE(nothing_is_due_without_a_lease) {
  ending it(5s, 100ms);
  BOOST_TEST(!it.next());
  BOOST_TEST((it.due(1h) == step::none));
}

BOOST_AUTO_TEST_CASE(both_signals_come_before_the_lease_is_over) {
  ending it = with_lease(20s);
  BOOST_TEST((it.next() == 14'900ms));
  BOOST_TEST((it.due(14'899ms) == step::none));
  BOOST_TEST((it.due(14'900ms) == step::terminate));
  BOOST_TEST((it.due(14'900ms) == step::none));
  BOOST_TEST((it.next() == 19'900ms));
  BOOST_TEST((it.due(19'900ms) == step::kill));
  BOOST_TEST((it.due(20s) == step::none));
  BOOST_TEST(!it.next());
}

BOOST_AUTO_TEST_CASE(a_renewal_moves_both) {
  ending it = with_lease(20s);
  it.set_lease_end(25s);
  BOOST_TEST((it.next() == 19'900ms));
  BOOST_TEST((it.due(14'900ms) == step::none));
}

BOOST_AUTO_TEST_CASE(a_renewal_takes_back_no_signal) {
  ending it = with_lease(20s);
  BOOST_TEST((it.due(15s) == step::terminate));
  it.set_lease_end(60s);
  BOOST_TEST((it.next() == 19'900ms));
  BOOST_TEST((it.due(19'900ms) == step::kill));
}

BOOST_AUTO_TEST_CASE(a_shorter_lease_brings_the_end_forward) {
  ending it = with_lease(20s);
  it.stop(1s);
  BOOST_TEST((it.due(1s) == step::terminate));
  BOOST_TEST((it.next() == 6s));
  it.set_lease_end(4s);
  BOOST_TEST((it.next() == 3'900ms));
}

BOOST_AUTO_TEST_CASE(a_late_guard_kills_at_once) {
  ending it = with_lease(20s);
  BOOST_TEST((it.due(30s) == step::terminate));
  BOOST_TEST((it.due(30s) == step::kill));
}

BOOST_AUTO_TEST_CASE(a_stop_gives_the_grace_but_never_more_than_the_lease) {
  ending it = with_lease(20s);
  it.stop(2s);
  it.stop(3s);
  BOOST_TEST((it.due(2s) == step::terminate));
  BOOST_TEST((it.next() == 7s));
  ending late = with_lease(20s);
  late.stop(14s);
  BOOST_TEST((late.due(14s) == step::terminate));
  BOOST_TEST((late.next() == 19s));
  ending later(10s, 100ms);
  later.set_lease_end(20s);
  later.stop(9s);
  BOOST_TEST((later.due(9s) == step::terminate));
  BOOST_TEST((later.next() == 19s));
  later.set_lease_end(15s);
  BOOST_TEST((later.next() == 14'900ms));
}

BOOST_AUTO_TEST_CASE(only_a_lease_that_ends_is_by_lease) {
  ending late = with_lease(20s);
  BOOST_TEST(!late.by_lease());
  late.due(15s);
  BOOST_TEST(late.by_lease());
  late.stop(16s);
  BOOST_TEST(late.by_lease());
  ending stopped = with_lease(20s);
  stopped.stop(1s);
  stopped.due(1s);
  stopped.due(20s);
  BOOST_TEST(!stopped.by_lease());
  ending killed = with_lease(20s);
  killed.kill(1s);
  killed.due(1s);
  BOOST_TEST(!killed.by_lease());
}

BOOST_AUTO_TEST_CASE(a_kill_comes_at_once) {
  ending it = with_lease(20s);
  it.kill(1s);
  BOOST_TEST((it.due(1s) == step::kill));
  BOOST_TEST((it.due(2s) == step::none));
}

BOOST_AUTO_TEST_CASE(a_stop_without_a_lease) {
  ending it(5s, 100ms);
  it.stop(1s);
  BOOST_TEST((it.due(1s) == step::terminate));
  BOOST_TEST((it.next() == 6s));
}

BOOST_AUTO_TEST_SUITE_END()

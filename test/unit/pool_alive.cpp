// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The core of a semaphore whose application must say that it is alive (tuning::alive).

#include "protocol/core/liveness.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(pool_alive)

namespace {

using lines = pool_story::lines;

pool_options asked() {
  return with(pool_story::usual(), [](pool_options& o) { o.alive_within = 4s; });
}

struct story : pool_story {
  story() : pool_story(asked()) {}
  lines answers(bool is_yes = true) { return tell(event::alive{is_yes}); }
};

/// Holds slot A with s1. The application was asked, and has not answered.
struct asked_holder : story {
  asked_holder() { hold(); }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(it_is_asked_once_and_again_after_its_answer, asked_holder) {
  BOOST_TEST(times(after(900ms), "ask") == 0u);
  answers();
  lines seen;
  for (int i = 0; i < 30; ++i) {
    const lines some = after(100ms);
    append(seen, some);
    if (says(some, "ask")) answers();
    if (renewal_open()) append(seen, renewed());
  }
  BOOST_TEST(times(seen, "ask") == 3u);
  BOOST_TEST(times(seen, "note") == 0u);
}

BOOST_FIXTURE_TEST_CASE(it_is_silent_after_its_time_and_then_its_lease_runs_out, asked_holder) {
  lines seen;
  for (int i = 0; i < 200 && times(seen, "lose") == 0; ++i) {
    append(seen, after(100ms));
    if (renewal_open()) append(seen, renewed());
  }
  BOOST_TEST(times(seen, "note") == 1u);
  BOOST_TEST(times(seen, "renew") == 0u, "its first renewal is due after 4.5 s");
  BOOST_TEST(times(seen, "lose A application_silent") == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_yes_in_time_saves_the_lease, asked_holder) {
  BOOST_TEST(times(after(5s), "note") == 1u);
  const lines saved = answers();
  BOOST_TEST(times(saved, "note") == 1u);
  BOOST_TEST(times(saved, "renew s1") == 1u);
  renewed();
  BOOST_TEST(!says(after(900ms), "lose"));
}

BOOST_FIXTURE_TEST_CASE(a_no_is_no_yes, asked_holder) {
  lines seen;
  for (int i = 0; i < 50; ++i) {
    const lines some = after(100ms);
    append(seen, some);
    if (says(some, "ask")) append(seen, answers(false));
  }
  append(seen, answers(false));
  BOOST_TEST(times(seen, "note") == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_suspended_process_gets_a_moment_for_its_answer, asked_holder) {
  const lines woken = jump(5s);
  BOOST_TEST(times(woken, "note") == 0u);
  answers();
  BOOST_TEST(times(after(300ms), "note") == 0u);
}

BOOST_FIXTURE_TEST_CASE(while_it_is_silent_nobody_here_gets_a_slot, story) {
  hold();
  acquire(2);
  after(5s);
  EXPECT(try_acquire(3), "deny t3");
  const lines released = release('A');
  BOOST_TEST(!says(released, "grant"));
  answer_all();
  BOOST_TEST(entries() == "", entries());
  const lines again = answers();
  BOOST_TEST(says(again, "note"));
  for (int i = 0; i < 10; ++i) append(const_cast<lines&>(again), run());
  BOOST_TEST(says(again, "grant t2"));
}

BOOST_FIXTURE_TEST_CASE(a_pool_without_anything_asks_nobody, story) {
  hold();
  answers();
  release('A');
  answer_all();
  close(true);
  answer_all();
  BOOST_TEST(!says(after(1min), "ask"));
}

BOOST_AUTO_TEST_SUITE_END()

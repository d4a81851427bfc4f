// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/broker_pool.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/broker_story.hpp"

// The core of a semaphore on RabbitMQ is told step by step what happens. broker_story.hpp says how to read its actions.

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using told = broker_story::lines;

/// Holds slot 1 as A. There are two slots.
struct broker_holder : broker_story {
  explicit broker_holder(protocol::broker_options o = usual()) : broker_story(std::move(o)) {
    acquire(1);
    probed("f");
    probed("t-");
    after(2s);
    probed("f-");
    seized(1, true);
  }
};

/// The same, of an application that must say every 3 s that it is alive, and hangs.
struct hung_broker_holder : broker_holder {
  hung_broker_holder() : broker_holder(with_question()) {}
  static protocol::broker_options with_question() {
    protocol::broker_options o = usual();
    o.alive_within = 3s;
    return o;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(broker_pool, broker_story)

BOOST_FIXTURE_TEST_CASE(a_hung_application_loses_its_slot_and_its_connection, hung_broker_holder) {
  told seen = after(9s);
  std::erase(seen, "suspect A");
  BOOST_TEST(seen == (told{"note application_silent", "lose A application_silent", "drop 1"}),
             boost::test_tools::per_element());
  BOOST_TEST(acquire(2) == told{}, boost::test_tools::per_element());
  BOOST_TEST(try_acquire(3) == told{"deny t3"}, boost::test_tools::per_element());
  told back = step(protocol::event::alive{});
  for (std::string& each : after(2s)) back.push_back(std::move(each));
  const auto begins = [](const char* text) {
    return [text](const std::string& line) { return line.starts_with(text); };
  };
  BOOST_TEST(std::count_if(back.begin(), back.end(), begins("note application_answers")) == 1);
  BOOST_TEST(std::count_if(back.begin(), back.end(), begins("seize")) == 1);
}

BOOST_FIXTURE_TEST_CASE(an_acquire_whose_time_is_over_is_told_of_an_outage, broker_story) {
  step(protocol::event::acquire{protocol::ticket{1}, {.deadline = now + 1s}});
  BOOST_TEST(after(1s) == told{"fail t1 timed_out"}, boost::test_tools::per_element());
  probe_fails();
  step(protocol::event::acquire{protocol::ticket{2}, {.deadline = now + 1s}});
  probe_fails();
  told seen = after(1s);
  BOOST_TEST((!seen.empty() && seen.back().starts_with("fail t2 ")));
}

BOOST_AUTO_TEST_CASE(the_first_acquire_asks_for_the_free_slots_and_takes_one) {
  BOOST_TEST(acquire(1) == told{"probe 1"}, boost::test_tools::per_element());
  BOOST_TEST(probed("t") == told{"probe 2"}, boost::test_tools::per_element());
  BOOST_TEST(probed("tf") == told{"probe 4"}, boost::test_tools::per_element());
  BOOST_TEST(probed("tf--") == told{"seize 2 first"}, boost::test_tools::per_element());
  BOOST_TEST(seized(2, true) == told{"grant t1 A 2"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_a_semaphore_an_acquire_fails) {
  acquire(1);
  BOOST_TEST(probed("-") == told{"fail t1 no_semaphore"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_a_semaphore_it_is_created_if_that_is_wanted) {
  protocol::broker_options o = usual();
  o.create_with = 2;
  broker_story s(o);
  s.acquire(1);
  BOOST_TEST(s.probed("-") == told{"create 2"}, boost::test_tools::per_element());
  BOOST_TEST(s.created() == told{"probe 1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_creation_that_may_have_died_is_completed_once) {
  protocol::broker_options o = usual();
  o.create_with = 3;
  broker_story s(o);
  s.acquire(1);
  BOOST_TEST(s.probed("t") == told{"probe 2"}, boost::test_tools::per_element());  // there may be more
  BOOST_TEST(s.probed("t-") == (told{"create 3", "listen"}), boost::test_tools::per_element());
  s.after(2s);
  BOOST_TEST(s.probed("t-").empty());
  broker_story complete(o);
  complete.acquire(1);
  complete.probed("t");
  complete.probed("tt");
  BOOST_TEST(complete.probed("ttt-") == told{"listen"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(the_slot_that_was_had_last_is_tried_at_once, broker_holder) {
  BOOST_TEST(release('A') == told{"vacate 1 token hint"}, boost::test_tools::per_element());
  BOOST_TEST(vacated(1) == told{"released A"}, boost::test_tools::per_element());
  BOOST_TEST(acquire(2) == told{"seize 1"}, boost::test_tools::per_element());
  BOOST_TEST(locked(1) == told{"probe 2"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(who_finds_no_free_slot_waits_for_hints_and_polls) {
  acquire(1);
  probed("t");
  BOOST_TEST(probed("t-") == told{"listen"}, boost::test_tools::per_element());
  BOOST_TEST(after(499ms).empty());
  BOOST_TEST(after(1001ms) == told{"probe 2"}, boost::test_tools::per_element());
  probed("t-");
  BOOST_TEST(hinted(7, 1) == told{"seize 1 first"}, boost::test_tools::per_element());
  BOOST_TEST(seized(1, true) == (told{"settle hint 7 used", "grant t1 A 1", "stop listening"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_hint_that_nobody_needs_goes_back) {
  acquire(1);
  probed("t");
  probed("t-");
  cancel(1);
  BOOST_TEST(hinted(7, 1) == told{"settle hint 7 back"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(after_three_lost_races_it_waits) {
  acquire(1);
  probed("f");
  BOOST_TEST(probed("f-") == told{"seize 1 first"}, boost::test_tools::per_element());
  BOOST_TEST(locked(1) == told{"probe 2"}, boost::test_tools::per_element());
  probed("f-");
  locked(1);
  probed("f-");
  BOOST_TEST(locked(1) == told{"listen"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_slot_without_a_token_is_kept_for_a_whole_lease_from_the_answer) {
  acquire(1);
  probed("f");
  probed("f-");
  after(3s);
  BOOST_TEST(seized(1, false) == told{"probe 2"}, boost::test_tools::per_element());
  probed("t-");
  for (told all; all.empty() || all.back() != "cleanse 1";) {
    const auto before = now;
    all = after(100ms);
    if (!all.empty() && all.back() == "probe 2") probed("t-");
    BOOST_REQUIRE(before < protocol::time_point(1h) + 13s);
  }
  BOOST_TEST((now - protocol::time_point(1h) >= 13s));
  verified(1);
  BOOST_TEST((deadline == now + 9s));
}

BOOST_AUTO_TEST_CASE(a_try_is_denied_though_a_slot_without_a_token_is_free_and_the_slot_becomes_clean) {
  try_acquire(1);
  probed("f");
  probed("f-");
  BOOST_TEST(seized(1, false) == told{"probe 2"}, boost::test_tools::per_element());
  BOOST_TEST(probed("t-") == told{"deny t1"}, boost::test_tools::per_element());
  BOOST_TEST(after(10s) == told{"cleanse 1"}, boost::test_tools::per_element());
  BOOST_TEST(verified(1) == told{"vacate 1 token hint"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_token_that_a_missing_slot_had_is_put_back) {
  acquire(1);
  probed("f");
  probed("f-");
  BOOST_TEST(no_such_slot(1, true) == (told{"vacate 1 token", "probe 1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_in_mid_way_goes_to_the_next_waiter_or_back) {
  acquire(1);
  probed("f");
  probed("f-");
  acquire(2);
  cancel(1);
  BOOST_TEST(seized(1, true) == told{"grant t2 A 1"}, boost::test_tools::per_element());

  broker_story alone;
  alone.acquire(1);
  alone.probed("f");
  alone.probed("f-");
  alone.cancel(1);
  BOOST_TEST(alone.seized(1, true) == told{"vacate 1 token hint"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_released_slot_goes_to_the_next_user_here_without_a_request, broker_holder) {
  acquire(2);
  BOOST_TEST(release('A') == (told{"released A", "grant t2 B 1"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(after_the_time_for_handoffs_it_goes_back_and_is_tried_again_after_a_pause, broker_holder) {
  acquire(2);
  probed("t-");
  after(101ms);
  BOOST_TEST(release('A') == told{"vacate 1 token hint"}, boost::test_tools::per_element());
  BOOST_TEST(vacated(1) == told{"released A"}, boost::test_tools::per_element());
  BOOST_TEST(after(19ms).empty());
  BOOST_TEST(after(1ms) == told{"seize 1"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_is_left_to_others_is_not_asked_for_again_and_again, broker_holder) {
  acquire(2);
  after(101ms);
  release('A');
  vacated(1);
  BOOST_TEST(probed("f-") == told{"listen"}, boost::test_tools::per_element());
  BOOST_TEST(after(20ms) == told{"seize 1"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_slot_keeps_its_place_until_its_release_is_answered, broker_holder) {
  release('A');
  acquire(2);
  probed("tf-");
  BOOST_TEST(seized(2, true) == told{"grant t2 B 2"}, boost::test_tools::per_element());
  BOOST_TEST(place('B') != place('A'));
  BOOST_TEST(vacated(1) == told{"released A"}, boost::test_tools::per_element());
  acquire(3);
  probed("ft-");
  BOOST_TEST(seized(1, true) == told{"grant t3 C 1"}, boost::test_tools::per_element());
  BOOST_TEST(place('C') == place('A'));
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_was_removed_is_revoked_and_not_handed_on, broker_holder) {
  BOOST_TEST(after(4s) == told{"verify 1"}, boost::test_tools::per_element());
  BOOST_TEST(verified(1, false) == (told{"update A", "revoke A"}), boost::test_tools::per_element());
  acquire(2);
  BOOST_TEST(release('A') == told{"vacate 1 token"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(in_an_alarm_a_release_publishes_nothing, broker_holder) {
  blocked(true);
  BOOST_TEST(release('A') == told{"vacate 1"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_release_that_is_stuck_in_an_alarm_ends_at_once_with_its_connection, broker_holder) {
  BOOST_TEST(release('A') == told{"vacate 1 token hint"}, boost::test_tools::per_element());
  blocked(true);
  BOOST_TEST(seat_blocked(1) == (told{"released A connection_lost", "drop 1"}), boost::test_tools::per_element());
  BOOST_TEST(seat_blocked(1).empty());
}

BOOST_FIXTURE_TEST_CASE(in_an_alarm_slots_are_tried_instead_of_probed, broker_holder) {
  blocked(true);
  BOOST_TEST(acquire(2) == told{"seize 2 first"}, boost::test_tools::per_element());
  BOOST_TEST(no_such_slot(2) == (told{"vacate 2", "listen"}), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_does_not_exist_is_not_tried_after_a_pause, broker_holder) {
  blocked(true);
  acquire(2);
  no_such_slot(2);
  BOOST_TEST(vacated(2).empty());
  BOOST_TEST(after(20ms).empty());
}

BOOST_FIXTURE_TEST_CASE(a_release_that_is_stuck_ends_in_time_and_closes_the_connection, broker_holder) {
  release('A');
  BOOST_TEST(after(5s) == (told{"released A timed_out", "drop 1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(without_a_connection_an_acquire_fails_in_time) {
  acquire(1);
  told all = probe_fails();
  for (int i = 0; i != 100 && (all.empty() || all.back() == "probe 1"); ++i) {
    all = after(100ms);
    if (!all.empty() && all.back() == "probe 1") all = probe_fails();
  }
  BOOST_TEST(all == told{"fail t1 unreachable"}, boost::test_tools::per_element());
  BOOST_TEST((now == protocol::time_point(1h) + 5s));
}

BOOST_AUTO_TEST_CASE(a_missing_right_fails_all_at_once) {
  acquire(1);
  acquire(2);
  BOOST_TEST(probe_fails(error::permission_denied) == (told{"fail t1 permission_denied", "fail t2 permission_denied"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_connection_of_a_seize_of_unknown_outcome_is_closed) {
  acquire(1);
  probed("f");
  probed("f-");
  BOOST_TEST(seize_fails(1, error::timed_out) == told{"drop 1"}, boost::test_tools::per_element());
  BOOST_TEST(seized(1, true).empty());  // too late
}

BOOST_FIXTURE_TEST_CASE(a_close_loses_the_slots_and_ends_when_they_are_released, broker_holder) {
  BOOST_TEST(close() == told{"lose A closed"}, boost::test_tools::per_element());
  BOOST_TEST(release('A') == told{"vacate 1 token hint"}, boost::test_tools::per_element());
  BOOST_TEST(vacated(1) == told{"closed"}, boost::test_tools::per_element());
  BOOST_TEST(acquire(2) == told{"fail t2 closed"}, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_close_publishes_no_token_for_a_user_that_has_not_let_go, broker_holder) {
  close();
  BOOST_TEST(after(5s) == (told{"drop 1", "closed"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_slot_whose_last_holder_may_believe_is_given_back_without_a_token) {
  acquire(1);
  probed("f");
  probed("f-");
  seized(1, false);
  BOOST_TEST(close() == (told{"fail t1 closed", "vacate 1 hint"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_waiter_does_not_stay_behind_a_seat_that_is_not_verified) {
  acquire(1);
  probed("f");
  probed("f-");
  now += 5500ms;  // the answer comes so late that a verification must follow, and gets no answer
  BOOST_TEST(seized(1, true) == (told{"verify 1", "probe 2"}), boost::test_tools::per_element());
  probed("tf");
  BOOST_TEST(probed("tf--") == told{"seize 2 first"}, boost::test_tools::per_element());
  BOOST_TEST(seized(2, true) == told{"grant t1 A 2"}, boost::test_tools::per_element());
  BOOST_TEST(verified(1) == told{"vacate 1 token hint"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_try_is_not_denied_while_the_seat_for_it_is_verified) {
  try_acquire(1);
  probed("f");
  probed("f-");
  now += 5500ms;
  seized(1, true);
  BOOST_TEST(probed("t-").empty());
  BOOST_TEST(verified(1) == told{"grant t1 A 1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_seat_without_a_user_that_cannot_be_verified_is_dropped) {
  try_acquire(1);
  probed("f");
  probed("f-");
  now += 5500ms;
  seized(1, true);
  probed("t-");
  BOOST_TEST(verify_fails(1) == (told{"drop 1", "deny t1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses) {
  protocol::broker_options o = usual();
  o.waiters_max = 1;
  broker_story s(o);
  s.acquire(1);
  BOOST_TEST(s.acquire(2) == told{"fail t2 too_many_waiters"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

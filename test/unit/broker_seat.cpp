// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "protocol/broker/seat.hpp"
#include "support/broker_story.hpp"

// The fate of one slot while a user holds it.

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using told = broker_story::lines;

/// Holds slot 1 as A. The request was sent 100 ms before its answer came, which is now.
struct seat_holder : broker_story {
  seat_holder() {
    acquire(1);
    probed("f");
    probed("f-");
    sent = now;
    now += 100ms;
    seized(1, true);
  }
  protocol::time_point sent{};
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(broker_seat, seat_holder)

BOOST_AUTO_TEST_CASE(its_user_believes_from_the_sending_of_the_request) { BOOST_TEST((deadline == sent + 9s)); }

BOOST_AUTO_TEST_CASE(it_is_verified_every_third_of_the_lease) {
  BOOST_TEST(after(2899ms).empty());
  BOOST_TEST(after(800ms) == told{"verify 1"}, boost::test_tools::per_element());
  const auto before = deadline;
  BOOST_TEST(verified(1) == told{"update A"}, boost::test_tools::per_element());
  BOOST_TEST((deadline > before + 2s && deadline < now + 9s + 1ms));
}

BOOST_AUTO_TEST_CASE(it_is_suspect_after_half_of_the_lease_and_recovers) {
  BOOST_TEST(after(4900ms) == (told{"verify 1", "suspect A"}), boost::test_tools::per_element());
  BOOST_TEST(verified(1) == told{"update A"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_is_lost_when_the_lease_is_over_and_is_kept_until_its_user_lets_go) {
  BOOST_TEST(after(8900ms) == (told{"verify 1", "suspect A", "lose A lease_expired"}),
             boost::test_tools::per_element());
  BOOST_TEST(verified(1).empty());
  BOOST_TEST(after(60s).empty());
  BOOST_TEST(release('A') == told{"vacate 1 token hint"}, boost::test_tools::per_element());
  BOOST_TEST(vacated(1).empty());
}

BOOST_AUTO_TEST_CASE(an_answer_after_the_end_of_the_lease_saves_nothing) {
  after(4s);
  now += 10s;  // the process stands still, and hears the answer first
  BOOST_TEST(verified(1) == told{"lose A lease_expired"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_is_lost_when_its_connection_ends_and_nothing_is_published) {
  BOOST_TEST(ended(1) == told{"lose A session_invalidated"}, boost::test_tools::per_element());
  BOOST_TEST(release('A').empty());
}

BOOST_AUTO_TEST_CASE(it_is_lost_when_b_is_gone_and_nothing_is_published) {
  after(4s);
  BOOST_TEST(gone(1) == (told{"lose A removed", "drop 1"}), boost::test_tools::per_element());
  BOOST_TEST(release('A').empty());
}

BOOST_AUTO_TEST_CASE(a_verification_that_fails_is_repeated_soon) {
  after(4s);
  BOOST_TEST(verify_fails(1).empty());
  BOOST_TEST(after(500ms) == told{"verify 1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_release_waits_for_the_pending_verification) {
  after(4s);
  BOOST_TEST(release('A').empty());
  BOOST_TEST(verified(1) == told{"vacate 1 token hint"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_release_whose_connection_ends_is_answered) {
  release('A');
  BOOST_TEST(ended(1) == told{"released A connection_lost"}, boost::test_tools::per_element());
  BOOST_TEST(vacated(1).empty());
}

BOOST_AUTO_TEST_CASE(a_release_of_unknown_outcome_closes_the_connection) {
  release('A');
  BOOST_TEST(vacate_fails(1) == (told{"released A connection_lost", "drop 1"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_late_grant_is_verified_first) {
  broker_story late;
  late.acquire(1);
  late.probed("f");
  late.probed("f-");
  late.now += 5500ms;
  BOOST_TEST(late.seized(1, true) == (told{"verify 1", "probe 2"}), boost::test_tools::per_element());
  BOOST_TEST(late.verified(1) == told{"grant t1 A 1"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_ids_of_seats_keep_the_numbers_of_slots) {
  BOOST_TEST(protocol::number_of(protocol::make_seat_id(77, protocol::slot_number_max)) == protocol::slot_number_max);
  BOOST_TEST((protocol::make_seat_id(77, 3) != protocol::make_seat_id(78, 3)));
}

BOOST_AUTO_TEST_SUITE_END()

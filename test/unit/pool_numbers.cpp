// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The core with numbered slots. pool_story.hpp says how to read its actions.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct numbered_story : pool_story {
  explicit numbered_story(std::uint32_t limit = 1) : pool_story(options(limit)) {}
  explicit numbered_story(pool_options o) : pool_story(std::move(o)) {}
  static pool_options options(std::uint32_t limit) {
    return with(usual(limit), [](pool_options& o) { o.numbered = true; });
  }
  std::string holder_of(std::uint32_t number) const {
    const auto pair = consul.get(number_key(number));
    return pair ? pair->session : "nobody ever";
  }
};

/// Holds slot A and number 0.
struct numbered_holder : numbered_story {
  numbered_holder() {
    hold();
    after(20ms);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_numbers, numbered_story)

BOOST_AUTO_TEST_CASE(a_free_slot_and_its_number_are_taken_in_one_write_and_go_back_in_one) {
  EXPECT(acquire(1), "read #1");
  EXPECT(listed(), "create m1");
  EXPECT(created(), "txn #2: cas @0 {s1} | lock s1 | number 0 s1");
  EXPECT(done(), "grant t1 A 12.0 number 0");
  BOOST_TEST(holder_of(0) == real("s1"));
  EXPECT(acquire(2));
  EXPECT(release('A'), "released A", "grant t2 B 12.1 number 0");  // from hand to hand it stays
  EXPECT(release('B'), "txn #3: cas @12 {} | unnumber 0 s1 | remove s1 | tree");
  EXPECT(done(), "released B");
  BOOST_TEST(holder_of(0) == "");
}

BOOST_AUTO_TEST_CASE(slot_and_number_go_to_whoever_is_next_in_one_write_if_it_wants_a_number) {
  for (const bool wants_one : {true, false}) {
    numbered_holder s;
    s.others_join(wants_one ? contender_magic | numbered_flag : contender_magic);
    s.watched();
    const std::string given = wants_one ? " number 0 | unnumber 0 s1 | number 0 s2 other" : " | unnumber 0 s1";
    EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1" + given + " | remove s1");
    EXPECT(s.done(), "released A");
    BOOST_TEST(s.holder_of(0) == (wants_one ? s.real("s2") : ""));
  }
}

BOOST_AUTO_TEST_CASE(sixty_slots_at_once_are_numbered_with_a_second_write) {
  numbered_story s(60);
  s.hold(1, 60);
  BOOST_TEST(s.txn_open());
  s.done();
  BOOST_REQUIRE(!s.actions().empty());
  const auto* granted = std::get_if<action::grant>(&s.actions().front());
  BOOST_REQUIRE(granted);
  BOOST_TEST(granted->numbers.size() == 60u);
  s.release('A');  // in two writes: there is not room for all
  s.run();
  for (std::uint32_t i = 0; i != 60; ++i) BOOST_TEST(s.holder_of(i) == "");
  BOOST_TEST(s.entries() == "");
}

/// After the end of its holder's session, Consul keeps a number from everybody, and does not report when that is over.
BOOST_AUTO_TEST_CASE(a_lock_delay_of_a_number_is_waited_for_with_growing_pauses) {
  ask();
  EXPECT(refused({{2, event::refusal::lock_delay}}), "txn #3: cas @0 {s1} | lock s1");
  EXPECT(done());
  int tries = 0, reads = 0;
  for (const time_point end = now + 15s; now < end; after(10ms)) {
    if (txn_open()) ++tries, refused({{0, event::refusal::lock_delay}});
    if (read_open()) ++reads;
    answer_reads_and_sessions();
  }
  BOOST_TEST(tries > 10);
  BOOST_TEST(tries < 50);
  BOOST_TEST(reads == 0);  // there would be nothing to see
  go_on(1s);
  BOOST_TEST(holder_of(0) == real("s1"));
}

BOOST_FIXTURE_TEST_CASE(a_holder_whose_number_is_taken_away_has_lost, numbered_holder) {
  consul.remove("p/.slot/0", now);
  EXPECT(watched(), "lose A removed", "watch #4 from 13");
  EXPECT(release('A'), "txn #5: cas @12 {} | remove s1 | tree");
}

BOOST_AUTO_TEST_SUITE_END()

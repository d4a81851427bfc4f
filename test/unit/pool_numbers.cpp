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
  static pool_options with_recorded_limit(std::uint32_t limit) {
    return with(options(limit), [](pool_options& o) { o.use_recorded_limit = true; });
  }
  std::string holder_of(std::uint32_t number) const {
    const auto pair = consul.get(number_key(number));
    return pair ? pair->session : "nobody ever";
  }
  /// Another process has number 0, with s1, which has an entry below the prefix.
  void others_take_it() {
    others_join();
    lock_number(0, "s1");
  }
  /// Answers the write, which is refused if it locks this number.
  lines done_but_for(std::uint32_t number) {
    for (const core_action& each : actions())
      if (const auto* const txn = std::get_if<action::send_txn>(&each))
        for (std::size_t i = 0; i != txn->operations.size(); ++i)
          if (txn->operations[i].key == number_key(number)) return refused({{i, event::refusal::lock_delay}});
    return done();
  }
  void others_want_one() { others_join(contender_magic | numbered_flag); }
  void lock_number(std::uint32_t number, const std::string& session) {
    BOOST_TEST(consul.transact({{kv_verb::lock, number_key(number), "x", mutex_flags, 0, real(session)}}, now).applied);
  }
  void resize_to(std::uint32_t limit) {
    order([limit](const inspection& seen) { return resize(seen, limit); });
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

BOOST_AUTO_TEST_CASE(who_is_granted_by_another_takes_its_number_first) {
  others_join();
  others_grant("s1", "s1");
  lock_number(0, "s1");
  ask();
  EXPECT(done(), "watch #3 from 16");
  consul.destroy_session(real("s1"), now);
  EXPECT(watched(), "watch #4 from 17", "txn #5: cas @13 {s2} | grant s2 us @16 +1");
  EXPECT(done(), "txn #6: number 0 s2");
  EXPECT(done(), "grant t1 A 18.0 number 0");
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

BOOST_AUTO_TEST_CASE(a_number_beyond_the_limit_is_not_given_on) {
  numbered_story s(with_recorded_limit(2));
  s.hold();
  s.after(20ms);
  s.others_want_one();
  s.watched();
  s.consul.transact({{kv_verb::unlock, s.number_key(0), "", mutex_flags, 0, s.real("s1")},
                     {kv_verb::lock, s.number_key(1), "", mutex_flags, 0, s.real("s1")}},
                    s.now);
  s.watched();
  s.resize_to(1);
  s.watched();
  EXPECT(s.release('A'), "txn #7: cas @16 {s2} limit 1 | grant s2 other @14 +1 | unnumber 1 s1 | remove s1");
}

/// Among many contenders, nobody reads the whole queue.
BOOST_AUTO_TEST_CASE(a_waiter_hears_of_slot_and_number_by_its_own_entry) {
  numbered_story s(with(options(1), [](pool_options& o) { o.own_watch = 100ms, o.own_watch_each = 5ms; }));
  for (int i = 0; i < 6; ++i) s.others_want_one();
  s.others_grant("s1", "s1");
  s.ask();
  EXPECT(s.done(), "watch #3 s7 from 25");
  s.others_grant("s7", "s7", "s2 s3 s4 s5 s6", 0);
  EXPECT(s.key_watched(), "grant t1 A 26.0 number 0");
  EXPECT(s.after(10ms), "watch #4 s7 from 26", "watch #5 record from 26", "watch #6 .slot/0 from 26");
  s.consul.remove(s.number_key(0), s.now);
  EXPECT(s.tell(event::key_watched{6, {}, {}}), "watch #7 from 23");
  BOOST_TEST(times(s.watched(), "lose A removed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_number_that_somebody_was_faster_to_take_is_not_asked_for_again) {
  numbered_story s(2);
  s.look(1);
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1 | number 0 s1");
  s.lock_number(0, s.others_join());
  EXPECT(s.done(), "txn #3: lock s1 | tree");
  EXPECT(s.done(), "watch #4 from 16");
  EXPECT(s.after(200ms), "txn #5: cas @0 {s1 s2} | grant s2 other @13 +1 | grant s1 us @16 +1");
  EXPECT(s.done(), "txn #6: number 1 s1");
  EXPECT(s.done(), "grant t1 A 17.0 number 1");
}

BOOST_AUTO_TEST_CASE(all_slots_of_one_request_are_numbered) {
  numbered_story s(3);
  s.look(1, 3);
  s.created();
  s.created();
  EXPECT(s.created(),
         "txn #2: cas @0 {s1 s2 s3} | lock s1 | lock s2 | lock s3 | number 0 s1 | number 1 s2 | number 2 s3");
  EXPECT(s.done(), "grant t1 A 14.0 number 0 number 1 number 2");
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

BOOST_AUTO_TEST_CASE(one_number_that_is_kept_back_does_not_keep_the_others) {
  numbered_story s(4);
  for (std::uint64_t t = 1; t != 4; ++t) s.acquire(t);
  s.listed();
  for (int i = 0; i != 3; ++i) s.created();
  std::size_t granted = 0;
  for (const time_point end = s.now + 100ms; s.now < end && granted < 3; s.after(5ms)) {
    while (s.txn_open()) granted += times(s.done_but_for(1), "grant");
    s.answer_reads_and_sessions();
  }
  BOOST_TEST(granted == 3u);
  BOOST_TEST(s.holder_of(1) == "nobody ever");
}

BOOST_AUTO_TEST_CASE(a_single_look_is_told_no_when_nobody_gives_a_number) {
  others_take_it();
  leaves("s1");  // and does not hold
  try_acquire(1);
  listed();
  created();
  BOOST_TEST(first_of(done()) == "deny t1");
}

BOOST_AUTO_TEST_CASE(a_single_look_does_not_wait_for_a_number_for_long) {
  try_acquire(1);
  listed();
  created();
  lines all;
  for (int i = 0; i != 100 && !says(all, "deny t1"); ++i) {
    if (txn_open()) append(all, done_but_for(0));
    if (read_open()) append(all, listed());
    if (!says(all, "deny t1")) after(10ms);
  }
  BOOST_TEST(says(all, "deny t1"));
}

BOOST_AUTO_TEST_CASE(while_there_is_no_number_it_looks_again_after_pauses) {
  others_take_it();
  leaves("s1");  // and does not hold
  look(1);
  EXPECT(created(), "txn #2: cas @0 {s2} | lock s2");
  done();
  const std::size_t before = requests;
  for (const time_point end = now + 5s; now < end; after(10ms)) answer_reads_and_sessions();
  BOOST_TEST(requests - before > 5u);
  BOOST_TEST(requests - before < 40u);
  consul.destroy_session(real("s1"), now);
  go_on(1s);
  go_on(1s);
  BOOST_TEST(holder_of(0) == real("s2"));
}

BOOST_AUTO_TEST_CASE(slots_that_wait_for_their_numbers_do_not_go_back_to_those_who_would_wait_too) {
  numbered_story s(2);
  s.others_join();
  s.lock_number(0, "s1");
  s.lock_number(1, "s1");
  s.leaves("s1");  // and does not hold
  s.acquire(1);
  s.acquire(2);
  s.run();
  BOOST_TEST(s.record() == "{s2 s3}");
  s.others_want_one();
  const std::size_t before = s.requests;
  s.go_on(1s);
  BOOST_TEST(s.record() == "{s2 s3}");
  BOOST_TEST(s.requests - before < 20u);
}

BOOST_FIXTURE_TEST_CASE(a_holder_whose_number_is_taken_away_has_lost, numbered_holder) {
  consul.remove("p/.slot/0", now);
  EXPECT(watched(), "lose A removed", "watch #4 from 13");
  EXPECT(release('A'), "txn #5: cas @12 {} | remove s1 | tree");
}

/// Otherwise the next holder would never get it.
BOOST_FIXTURE_TEST_CASE(the_session_of_a_holder_that_was_taken_out_of_the_record_ends, numbered_holder) {
  record_becomes("");
  EXPECT(watched(), "lose A removed", "destroy s1");
}

BOOST_AUTO_TEST_CASE(a_number_of_unknown_outcome_is_looked_up) {
  for (const bool applied : {true, false}) {
    numbered_story s(2);
    s.others_join();
    s.others_grant("s1", "s1");
    s.lock_number(0, "s1");
    s.ask();
    s.refused({{2, event::refusal::lock_delay}});
    s.done();
    s.after(100ms);
    BOOST_REQUIRE(s.txn_open());
    applied ? s.applied_but_unknown() : s.unknown();
    BOOST_TEST((s.holder_of(1) == s.real("s2")) == applied);
    pool_story::lines all = s.listed();
    append(all, s.go_on(100ms));
    BOOST_TEST(times(all, "grant t1") == 1u);
    BOOST_TEST(s.pool().status().sessions == 1u);
    BOOST_TEST(s.consul.has_session(s.real("s2")) == applied);  // a late write of one that has ended is refused
  }
}

BOOST_AUTO_TEST_CASE(a_number_beyond_a_lower_limit_goes_to_nobody_here) {
  numbered_story s(with_recorded_limit(2));
  s.hold(1, 2);
  s.after(20ms);
  s.acquire(2);
  s.resize_to(1);
  s.watched();
  s.release('A');
  BOOST_TEST(times(s.run(), "grant t2 B 15.0 number 0") == 1u);
}

BOOST_AUTO_TEST_CASE(who_waits_without_numbers_is_granted_as_ever) {
  pool_story s(usual(2));
  s.consul.transact({{kv_verb::lock, "p/.slot/1", "x", mutex_flags, 0, s.real(s.others_join())}}, s.now);
  s.look(1);
  EXPECT(s.created(), "txn #2: cas @0 {s1 s2} | grant s1 other @12 +1 | lock s2");
  EXPECT(s.done(), "grant t1 A 15.0");
}

BOOST_AUTO_TEST_SUITE_END()

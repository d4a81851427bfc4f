// The machine with numbered slots: see pool_story.hpp for how its answers read.

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
  static pool_options options(std::uint32_t limit) {
    pool_options o = usual(limit);
    o.numbered = true;
    return o;
  }
  std::string holder_of(std::uint32_t number) const {
    const auto pair = consul.get(number_key(number));
    return pair ? pair->session : "nobody ever";
  }
  /// Somebody else has a number, by a session that says so below the prefix.
  std::string others_take(std::uint32_t number) {
    std::string session = others_join();
    lock_number(number, session);
    return session;
  }
  void lock_number(std::uint32_t number, const std::string& session) {
    BOOST_TEST(consul.transact({{kv_verb::lock, number_key(number), "x", mutex_flags, 0, real(session)}}, now).applied);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_numbers)

BOOST_AUTO_TEST_CASE(a_free_slot_and_its_number_are_taken_in_one_write) {
  numbered_story s;
  EXPECT(s.acquire(1), "read #1");
  EXPECT(s.listed(), "create m1");
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1 | number 0 s1");
  EXPECT(s.done(), "grant t1 A 12.0 number 0");
  BOOST_TEST(s.holder_of(0) == s.real("s1"));
}

BOOST_AUTO_TEST_CASE(both_go_back_in_one_write) {
  numbered_story s;
  s.hold();
  EXPECT(s.release('A'), "txn #3: cas @12 {} | unnumber 0 s1 | remove s1 | tree");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.holder_of(0) == "");
}

BOOST_AUTO_TEST_CASE(from_hand_to_hand_the_number_stays) {
  numbered_story s;
  s.hold();
  s.acquire(2);
  EXPECT(s.release('A'), "released A", "grant t2 B 12.1 number 0");
}

BOOST_AUTO_TEST_CASE(who_is_granted_by_another_takes_its_number_first) {
  numbered_story s;
  s.others_join();
  s.others_grant("s1", "s1");
  s.lock_number(0, "s1");
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.done(), "watch #3 from 16");
  s.consul.destroy_session(s.real("s1"), s.now);
  EXPECT(s.watched(), "watch #4 from 17", "txn #5: cas @13 {s2} | grant s2 us @16 +1");
  EXPECT(s.done(), "txn #6: number 0 s2");
  EXPECT(s.done(), "grant t1 A 18.0 number 0");
}

BOOST_AUTO_TEST_CASE(slot_and_number_go_to_whoever_is_next_in_one_write) {
  numbered_story s;
  s.hold();
  s.after(20ms);
  s.others_join(contender_magic | numbered_flag);
  s.watched();
  EXPECT(s.release('A'),
         "txn #5: cas @12 {s2} | grant s2 other @14 +1 number 0 | unnumber 0 s1 | number 0 s2 other | remove s1");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.holder_of(0) == s.real("s2"));
}

BOOST_AUTO_TEST_CASE(whoever_wants_no_number_is_given_none) {
  numbered_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  s.watched();
  EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | unnumber 0 s1 | remove s1");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.holder_of(0) == "");
}

BOOST_AUTO_TEST_CASE(a_number_beyond_the_limit_is_not_given_on) {
  pool_options o = numbered_story::options(2);
  o.use_recorded_limit = true;
  pool_story s(o);
  s.hold();
  s.after(20ms);
  s.others_join(contender_magic | numbered_flag);
  s.watched();
  s.consul.transact({{kv_verb::unlock, s.number_key(0), "", mutex_flags, 0, s.real("s1")},
                     {kv_verb::lock, s.number_key(1), "", mutex_flags, 0, s.real("s1")}},
                    s.now);
  s.watched();
  s.order([](const inspection& now) { return resize(now, 1); });
  s.watched();
  EXPECT(s.release('A'), "txn #7: cas @16 {s2} limit 1 | grant s2 other @14 +1 | unnumber 1 s1 | remove s1");
}

/// In a crowd nobody looks at all of it.
BOOST_AUTO_TEST_CASE(a_waiter_hears_of_slot_and_number_by_its_own_entry) {
  pool_options o = numbered_story::options(1);
  o.own_watch = 100ms;
  o.own_watch_each = 5ms;
  pool_story s(o);
  for (int i = 0; i < 6; ++i) s.others_join(contender_magic | numbered_flag);
  s.others_grant("s1", "s1");
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.done(), "watch #3 s7 from 25");
  s.others_grant("s7", "s7", "s2 s3 s4 s5 s6", 0);
  EXPECT(s.key_watched(), "grant t1 A 26.0 number 0");
  EXPECT(s.after(10ms), "watch #4 s7 from 26", "watch #5 record from 26", "watch #6 .slot/0 from 26");
  s.consul.remove(s.number_key(0), s.now);
  EXPECT(s.tell(event::key_watched{6, {}, {}}), "watch #7 from 23");
  const auto all = s.watched();
  BOOST_TEST(std::count(all.begin(), all.end(), "lose A removed") == 1);
}

BOOST_AUTO_TEST_CASE(a_number_that_somebody_was_faster_to_take_is_not_asked_for_again) {
  numbered_story s(2);
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1 | number 0 s1");
  s.others_take(0);
  EXPECT(s.done(), "txn #3: lock s1 | tree");
  EXPECT(s.done(), "watch #4 from 16");
  EXPECT(s.after(200ms), "txn #5: cas @0 {s1 s2} | grant s2 other @13 +1 | grant s1 us @16 +1");
  EXPECT(s.done(), "txn #6: number 1 s1");
  EXPECT(s.done(), "grant t1 A 17.0 number 1");
}

BOOST_AUTO_TEST_CASE(all_slots_of_one_request_are_numbered) {
  numbered_story s(3);
  s.acquire(1, 3);
  s.listed();
  s.created();
  s.created();
  EXPECT(s.created(),
         "txn #2: cas @0 {s1 s2 s3} | lock s1 | lock s2 | lock s3 | number 0 s1 | number 1 s2 | number 2 s3");
  EXPECT(s.done(), "grant t1 A 14.0 number 0 number 1 number 2");
}

BOOST_AUTO_TEST_CASE(sixty_slots_at_once_are_numbered_with_a_second_write) {
  numbered_story s(60);
  s.acquire(1, 60);
  s.listed();
  for (int i = 0; i != 60; ++i) s.created();
  BOOST_TEST(s.txn_open());
  s.done();
  BOOST_TEST(s.txn_open());
  s.done();
  BOOST_REQUIRE(!s.actions().empty());
  const auto* granted = std::get_if<action::grant>(&s.actions().front());
  BOOST_REQUIRE(granted);
  BOOST_TEST(granted->numbers.size() == 60u);
  const auto back = s.release('A');  // in two writes: there is not room for all
  s.run();
  for (std::uint32_t i = 0; i != 60; ++i) BOOST_TEST(s.holder_of(i) == "");
  BOOST_TEST(s.entries() == "");
}

/// Consul keeps a number from everybody after its holder's session ended, and tells nobody when that is over.
BOOST_AUTO_TEST_CASE(a_lock_delay_of_a_number_is_waited_for_with_growing_pauses) {
  numbered_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.refused({{2, event::refusal::lock_delay}}), "txn #3: lock s1 | tree");
  EXPECT(s.done(), "watch #4 from 12", "txn #5: cas @0 {s1} | grant s1 us @12 +1");
  s.done();
  int tries = 0;
  for (const time_point begin = s.now; s.now < begin + 15s; s.after(10ms)) {
    if (s.txn_open()) {
      ++tries;
      s.refused({{0, event::refusal::lock_delay}});
    }
    s.answer_reads_and_sessions();
  }
  BOOST_TEST(tries > 10);
  BOOST_TEST(tries < 50);
  s.after(1s);
  s.run();
  BOOST_TEST(s.holder_of(0) == s.real("s1"));
}

BOOST_AUTO_TEST_CASE(one_number_that_is_kept_back_does_not_keep_the_others) {
  numbered_story s(4);
  for (std::uint64_t t = 1; t != 4; ++t) s.acquire(t);
  s.listed();
  s.created();
  s.created();
  s.created();
  std::size_t granted = 0;
  const auto refuse_or_do = [&]() -> pool_story::lines {
    for (const core_action& each : s.actions())
      if (const auto* const txn = std::get_if<action::send_txn>(&each))
        for (std::size_t i = 0; i != txn->operations.size(); ++i)
          if (txn->operations[i].key == s.number_key(1)) return s.refused({{i, event::refusal::lock_delay}});
    return s.done();
  };
  for (const time_point begin = s.now; s.now < begin + 100ms && granted < 3; s.after(5ms)) {
    while (s.txn_open())
      for (const std::string& line : refuse_or_do()) granted += line.starts_with("grant");
    s.answer_reads_and_sessions();
  }
  BOOST_TEST(granted == 3u);
  BOOST_TEST(s.holder_of(1) == "nobody ever");
}

BOOST_AUTO_TEST_CASE(a_single_look_is_told_no_when_nobody_gives_a_number) {
  numbered_story s;
  s.others_take(0);  // and does not hold
  s.leaves("s1");
  s.try_acquire(1);
  s.listed();
  s.created();
  BOOST_TEST(s.done().front() == "deny t1");
}

BOOST_AUTO_TEST_CASE(a_single_look_does_not_wait_for_a_number_for_long) {
  numbered_story s;
  s.try_acquire(1);
  s.listed();
  s.created();
  bool denied = false;
  for (int i = 0; i != 100 && !denied; ++i) {
    if (s.txn_open())
      for (const std::string& line :
           s.refused({{s.standing().holds(s.real("s1")) ? 0u : 2u, event::refusal::lock_delay}}))
        denied = denied || line == "deny t1";
    if (s.read_open())
      for (const std::string& line : s.listed()) denied = denied || line == "deny t1";
    if (!denied) s.after(10ms);
  }
  BOOST_TEST(denied);
}

BOOST_AUTO_TEST_CASE(while_there_is_no_number_it_looks_again_after_pauses) {
  numbered_story s;
  s.others_take(0);  // and does not hold
  s.leaves("s1");
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @0 {s2} | lock s2");
  s.done();
  const std::size_t before = s.requests;
  for (const time_point begin = s.now; s.now < begin + 5s; s.after(10ms)) s.answer_reads_and_sessions();
  BOOST_TEST(s.requests - before > 5u);
  BOOST_TEST(s.requests - before < 40u);
  s.consul.destroy_session(s.real("s1"), s.now);
  s.after(1s);
  s.run();
  s.after(1s);
  s.run();
  BOOST_TEST(s.holder_of(0) == s.real("s2"));
}

BOOST_AUTO_TEST_CASE(a_holder_whose_number_is_taken_away_has_lost) {
  numbered_story s;
  s.hold();
  s.after(20ms);
  s.consul.remove("p/.slot/0", s.now);
  EXPECT(s.watched(), "lose A removed", "watch #4 from 13");
  EXPECT(s.release('A'), "txn #5: cas @12 {} | remove s1 | tree");
}

/// Or the next would never get it.
BOOST_AUTO_TEST_CASE(the_session_of_a_holder_that_was_taken_out_of_the_record_ends) {
  numbered_story s;
  s.hold();
  s.after(20ms);
  s.record_becomes("");
  EXPECT(s.watched(), "lose A removed", "destroy s1");
}

BOOST_AUTO_TEST_CASE(a_number_of_unknown_outcome_is_looked_up) {
  for (const bool applied : {true, false}) {
    numbered_story s(2);
    s.others_join();
    s.others_grant("s1", "s1");
    s.lock_number(0, "s1");
    s.acquire(1);
    s.listed();
    s.created();
    s.refused({{2, event::refusal::lock_delay}});
    s.done();
    s.done();
    s.after(100ms);
    BOOST_REQUIRE(s.txn_open());
    if (applied)
      s.applied_but_unknown();
    else
      s.unknown();
    BOOST_TEST((s.holder_of(1) == s.real("s2")) == applied);
    const auto seen = s.listed();
    s.after(100ms);
    const auto all = s.run();
    const auto granted = [](const std::string& line) { return line.starts_with("grant t1"); };
    BOOST_TEST(std::count_if(seen.begin(), seen.end(), granted) + std::count_if(all.begin(), all.end(), granted) == 1);
    BOOST_TEST(s.pool().status().sessions == 1u);
    BOOST_TEST(s.consul.has_session(s.real("s2")) == applied);  // a late write of one that has ended is refused
  }
}

BOOST_AUTO_TEST_CASE(a_number_beyond_a_lower_limit_goes_to_nobody_here) {
  pool_options o = numbered_story::options(2);
  o.use_recorded_limit = true;
  pool_story s(o);
  s.acquire(1, 2);
  s.listed();
  s.created();
  s.created();
  s.done();
  s.after(20ms);
  s.acquire(2);
  s.order([](const inspection& now) { return resize(now, 1); });
  s.watched();
  s.release('A');
  const auto all = s.run();
  BOOST_TEST(std::count(all.begin(), all.end(), "grant t2 B 15.0 number 0") == 1);
}

BOOST_AUTO_TEST_CASE(who_waits_without_numbers_is_granted_as_ever) {
  pool_story s(pool_story::usual(2));
  s.consul.transact({{kv_verb::lock, "p/.slot/1", "x", mutex_flags, 0, s.real(s.others_join())}}, s.now);
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @0 {s1 s2} | grant s1 other @12 +1 | lock s2");
  EXPECT(s.done(), "grant t1 A 15.0");
}

BOOST_AUTO_TEST_SUITE_END()

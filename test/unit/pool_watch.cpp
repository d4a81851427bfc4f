// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

// The watches of a pool among many contenders. pool_story.hpp says how to read its actions.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using lines = pool_story::lines;

pool_options directed(std::uint32_t limit = 1) {
  return with(pool_story::usual(limit), [](pool_options& o) { o.own_watch = 100ms, o.own_watch_each = 5ms; });
}

/// Nobody watches all entries, even if they are few.
pool_options one_by_one(std::uint32_t limit = 1) {
  return with(directed(limit), [](pool_options& o) { o.watch_all_max = 0; });
}

/// Other processes have the entries s1 to s6, and s1 holds. Ours is s7.
struct crowd : pool_story {
  explicit crowd(pool_options o = directed()) : pool_story(std::move(o)) {
    others_join();
    record_becomes("s1");
    others_come(5);
  }
  void others_come(int count) {
    while (count-- > 0) others_join();
  }
  /// All the others leave, also those that joined since.
  void others_leave(int last = 6) {
    for (int i = 1; i <= last; ++i)
      if (i != 7) leaves("s" + std::to_string(i));
  }
  /// Another process grants our entry, and writes this text after its description.
  void is_granted(const std::string& words, std::string_view holders = "s7", std::uint32_t limit = 1) {
    const auto entry = *consul.get("p/" + real("s7"));
    record_becomes(holders, limit);
    consul.put(entry.key, "us\n" + words, next_grant_flags(entry.flags), now);
  }
  /// Returns the text that names the next contender.
  std::string next_is(const std::string& who, std::uint32_t limit, const std::string& behind) const {
    return "{\"Limit\":" + std::to_string(limit) + ",\"Next\":[[\"" + real(who) + "\"," +
           std::to_string(consul.get("p/" + real(who))->modify_index) + ",\"other\"]],\"Behind\":" + behind + "}";
  }
};

/// A pool that waits. Watch #3 is of its own entry.
struct crowd_with_us : crowd {
  explicit crowd_with_us(pool_options o = directed()) : crowd(std::move(o)) { hold(); }
};

/// A pool that has been granted slot A, and has read the state.
struct holder_in_a_crowd : crowd_with_us {
  explicit holder_in_a_crowd(pool_options o = directed()) : crowd_with_us(std::move(o)) {
    others_grant("s7", "s7");
    key_watched();
    listed();
  }
};

/// A pool that holds slot B, for which it asked again at once. s9 and s10 are next.
struct looper : crowd_with_us {
  looper() {
    others_come(2);
    others_grant("s7", "s7", "s8 s9");
    key_watched();
    release('A');
    done();
    come(2);
    others_join();
    others_grant("s7", "s7", "s9 s10");
    run();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_watch, crowd_with_us)

BOOST_AUTO_TEST_CASE(a_waiter_watches_its_own_entry_and_is_granted_by_it_without_a_look_at_the_others) {
  const std::string back = "txn #5: cas @26 {s1} | grant s1 other @12 +1 next s2 s3 s4 s5 s6 | remove s7";
  for (const bool has_looked : {true, false}) {
    crowd s;
    s.look(1);
    EXPECT(s.created(), "txn #2: lock s7 | look");
    EXPECT(s.done(), "watch #3 s7 from 25");
    s.others_grant("s7", "s7");
    EXPECT(s.key_watched(), "read #4", "grant t1 A 26.0");
    // To release the slot, the pool must have read the state. It has done so by then, or waits for it.
    if (has_looked) EXPECT(s.listed());
    if (has_looked) EXPECT(s.release('A'), back);
    if (!has_looked) EXPECT(s.release('A'));
    if (!has_looked) EXPECT(s.listed(), back);
  }
}

BOOST_AUTO_TEST_CASE(an_entry_that_is_made_anew_is_no_grant) {
  crowd_with_us s(with(directed(), [](pool_options& o) { o.local_handoff_time = 20ms; }));
  s.others_come(4);
  s.others_grant("s7", "s7", "s8 s9 s10 s11");
  s.key_watched();
  s.acquire(2);
  EXPECT(s.after(50ms), "watch #4 s7 from 34", "watch #5 record from 34");
  EXPECT(s.release('A'), "txn #6: cas @34 {s8} | grant s8 other @27 +1 next s9 s10 s11 | remove s7 | lock s7");
  EXPECT(s.unknown(), "read #7");
  const auto then = s.consul.listed(0, "p/");
  BOOST_TEST(s.applied_late());
  EXPECT(s.key_watched());  // its own entry: a write of unknown outcome is still to be cleared up
  EXPECT(s.key_watched());  // the record, which shows that it was applied
  EXPECT(s.listed_late(then), "released A", "watch #8 s7 from 34");  // older than that: it still has the old entry
  EXPECT(s.key_watched(), "watch #9 s7 from 35");
  EXPECT(s.after(20ms), "read #10");  // the pause after the failure is over
  EXPECT(s.listed());
}

BOOST_AUTO_TEST_CASE(a_grant_that_says_who_comes_next_is_handed_on_without_a_look_unless_that_one_is_gone) {
  for (const bool is_gone : {false, true}) {
    crowd_with_us s;
    s.others_come(2);
    s.others_grant("s7", "s7", "s8 s9");
    EXPECT(s.key_watched(), "grant t1 A 30.0");
    if (is_gone) s.leaves("s8");
    EXPECT(s.release('A'), "txn #4: cas @30 {s8} | grant s8 other @27 +1 next s9 | remove s7");
    if (is_gone) EXPECT(s.done(), "read #5");
    if (is_gone) EXPECT(s.listed(), "txn #6: cas @30 {s1} | grant s1 other @12 +1 next s2 s3 s4 s5 s6 s9 | remove s7");
    EXPECT(s.done(), "released A");
    BOOST_TEST(s.record() == (is_gone ? "{s1}" : "{s8}"));
  }
}

BOOST_FIXTURE_TEST_CASE(who_came_back_at_once_queues_again_in_the_write_that_gives_its_slot_away, looper) {
  EXPECT(release('B'), "txn #7: cas @35 {s9} | grant s9 other @29 +1 next s10 | remove s7 | lock s7");
  EXPECT(done(), "released B", "watch #8 s7 from 36");
  EXPECT(acquire(3));
  others_grant("s7", "s7");
  EXPECT(key_watched(), "read #9", "grant t3 C 37.0");
}

BOOST_FIXTURE_TEST_CASE(who_does_not_come_back_leaves_the_queue_soon, looper) {
  release('B');
  done();
  EXPECT(after(4ms));
  EXPECT(after(1ms), "txn #9: remove s7 @36");
  done();
  // It has learned.
  come(3);
  others_grant("s7", "s7", "s9");
  run();
  after(20ms);
  release('C');
  BOOST_TEST(says(run(), "released C"));
  BOOST_TEST(entries().find("s7") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_forged_count_of_those_behind_blinds_nobody) {
  is_granted(next_is(others_join(), 1, "1000000000000"));
  key_watched();
  go('A');
  come(2);
  others_leave(8);
  lines all;
  for (int i = 0; i < 60 && !says(all, "grant"); ++i) {
    append(all, after(1s));
    if (i % 10 == 9 && key_watch_open()) append(all, key_watched());  // its wait is over
    append(all, run());
  }
  BOOST_TEST(says(all, "grant"));
}

BOOST_AUTO_TEST_CASE(a_forged_name_writes_nothing_into_the_record) {
  others_join();
  is_granted(R"({"Limit":1,"Next":[[".lock",29,"x"]],"Behind":3})");
  key_watched();
  release('A');
  BOOST_TEST(says(run(), "released A"));
  BOOST_TEST(record() == "{s1}");
}

BOOST_AUTO_TEST_CASE(a_grant_under_another_limit_drops_no_holder) {
  is_granted(next_is(others_join(), 2, "0"), "s1 s7", 2);
  key_watched();
  go('A');
  BOOST_TEST(record().find("s1") != std::string::npos, record());
}

BOOST_AUTO_TEST_CASE(who_was_granted_before_it_saw_a_record_notices_that_it_is_deleted) {
  for (const bool release : {false, true}) {
    pool_story s(directed(2));
    for (int i = 0; i < 6; ++i) s.others_join();
    s.come(1);
    s.record_becomes("s1 s2");
    s.leaves("s3");
    for (int i = 0; i < 5; ++i) s.others_join();
    s.others_grant("s1 s7", "s7", "s8 s9 s10 s11 s12");
    s.key_watched();
    s.run();
    s.consul.remove("p/.lock", s.now);
    const std::size_t before = s.requests;
    if (release) s.release('A');
    s.after(5ms);
    for (int i = 0; i < 50; ++i) {  // a query from index 0 is answered at once
      s.run();
      if (s.key_watch_open()) s.key_watched();
    }
    BOOST_TEST(s.requests - before < 20u, (release ? "released" : "held"));
  }
}

BOOST_AUTO_TEST_CASE(who_has_waited_for_long_watches_the_entry_before_its_own) {
  for (const bool own_watch_fails : {false, true}) {
    crowd_with_us s;
    EXPECT(s.after(150ms), "watch #4 from 23");        // 100 ms, and 5 ms for each that may stand before it
    if (own_watch_fails) EXPECT(s.key_watch_fails());  // nobody needs it
    EXPECT(s.watched(), "watch #5 s6 from 23");
    if (own_watch_fails) continue;
    s.leaves("s6");
    s.key_watched();  // its own, unchanged
    EXPECT(s.key_watched(), "watch #6 from 25");
    EXPECT(s.watched(), "watch #7 s5 from 21");
  }
}

BOOST_AUTO_TEST_CASE(the_head_of_the_queue_watches_everything) {
  for (const char* each : {"s2", "s3", "s4", "s5", "s6"}) leaves(each);
  others_come(5);
  EXPECT(after(150ms), "watch #4 from 23");
  EXPECT(watched(), "watch #5 from 40");
  // This process notices a holder's death.
  leaves("s1");
  EXPECT(watched(), "watch #6 from 41", "txn #7: cas @13 {s7} | grant s7 us @25 +1 next s8 s9 s10 s11 s12");
}

BOOST_AUTO_TEST_CASE(the_head_of_a_long_queue_looks_soon_and_another_after_a_quarter_of_its_ttl) {
  for (const bool is_first : {true, false}) {
    pool_story s(directed());
    s.record_becomes(s.others_join());
    for (int i = 0; i != 2'000 && !is_first; ++i) s.others_join();
    s.come(1);
    for (int i = 0; i != 2'000 && is_first; ++i) s.others_join();
    const duration longest = is_first ? duration(101ms) : duration(3751ms);
    lines all = s.after(longest - 10ms);
    BOOST_TEST(times(all, "watch #") == 0u);
    BOOST_TEST(times(s.after(20ms), "watch #") == 1u);
  }
}

BOOST_AUTO_TEST_CASE(a_stopped_watch_of_everything_fails_nobody) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.come(1);
  const failure cancelled{error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}};
  EXPECT(s.tell(event::prefix_listed{1'000, {}, 0, cancelled}));
}

BOOST_AUTO_TEST_CASE(a_holder_among_many_notices_once_what_becomes_of_the_record) {
  enum change { edited, gone, corrupt };
  for (const change each : {edited, gone, corrupt}) {
    holder_in_a_crowd s;
    s.after(5ms);
    if (each == edited) s.record_becomes("s1");
    if (each == gone) s.consul.remove("p/.lock", s.now);
    if (each == corrupt) s.consul.put("p/.lock", "nonsense", semaphore_flags, s.now);
    const std::size_t before = s.requests;
    BOOST_TEST(times(s.run(), "lose A removed") == 1u);
    BOOST_TEST(s.requests - before < 10u);
  }
}

BOOST_FIXTURE_TEST_CASE(an_entry_that_is_edited_by_hand_is_looked_at_once, holder_in_a_crowd) {
  after(5ms);
  const auto entry = *consul.get("p/" + real("s7"));
  consul.put(entry.key, "edited", entry.flags, now);
  const std::size_t before = requests;
  run();
  BOOST_TEST(requests - before < 10u);
}

/// If connections are few, the client asks for shorter waits than the pool.
BOOST_AUTO_TEST_CASE(an_answer_after_the_wait_that_was_sent_is_not_early) {
  after(150ms);
  key_watched();
  watched();  // watch #5 s6
  after(1s);
  EXPECT(key_watched_in(1s), "watch #6 s7 from 25");
}

/// Over eight slots of its own a process watches everything.
BOOST_AUTO_TEST_CASE(watches_of_everything_pause_in_a_crowd) {
  pool_story s(with(directed(100), [](pool_options& o) { o.watch_pause_each = 500us; }));
  for (std::uint64_t t = 1; t != 41; ++t) s.acquire(t);
  s.run();
  s.go_on(1s);
  std::size_t listings = 0;
  for (int i = 0; i != 1'000; ++i) {
    s.others_join();
    s.leaves("s" + std::to_string(41 + i));
    listings += times(s.go_on(1ms), "watch #");
  }
  BOOST_TEST(listings <= 1'000u / 20);  // half a millisecond for each of 40
}

BOOST_AUTO_TEST_CASE(who_came_unseen_is_granted_by_whoever_frees_a_slot) {
  pool_story s(directed());
  s.hold();
  s.others_join();  // sees a full record, and waits for its entry to be touched
  EXPECT(s.release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "released A", "txn #4: cas @15 {s2} | grant s2 other @14 +1");
  EXPECT(s.done());
}

BOOST_FIXTURE_TEST_CASE(with_contenders_of_another_kind_everything_is_watched, crowd) {
  go_joins();
  look(1);
  EXPECT(created(), "txn #2: lock s8 | tree");
  EXPECT(done(), "watch #3 from 27");
}

// --- What an independent review found

BOOST_AUTO_TEST_CASE(a_write_of_ours_that_is_not_answered_yet_is_not_asked_about) {
  cancel(1);
  apply_now();
  holder_in_a_crowd holds;
  holds.after(5ms);
  holds.release('A');
  holds.apply_now();
  for (crowd* s : {static_cast<crowd*>(this), static_cast<crowd*>(&holds)}) {
    const std::size_t before = s->requests;
    s->run(false);
    BOOST_TEST(s->requests - before < 5u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_release_whose_watch_is_answered_first_costs_nothing_more, holder_in_a_crowd) {
  go_on(205ms);
  release('A');
  apply_now();
  const std::size_t before = requests;
  run();
  BOOST_TEST(requests == before);
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_seen_before_the_reply_of_the_requeue_has_a_token_of_its_own) {
  holder_in_a_crowd s(one_by_one());
  s.after(5ms);
  s.acquire(2);
  s.go_on(200ms);
  EXPECT(s.release('A'), "txn #7: cas @26 {s1} | grant s1 other @12 +1 next s2 s3 s4 s5 s6 | remove s7 | lock s7");
  s.apply_now();
  s.others_grant("s7", "s7");
  EXPECT(s.key_watched());  // its entry
  EXPECT(s.key_watched());  // the record: both before the write's reply
  EXPECT(s.done(), "read #8");
  EXPECT(s.listed(), "released A", "grant t2 B 28.0");
}

/// The folder is deleted without its slash, or one above it is. Consul does not wake those who watch the folder.
BOOST_AUTO_TEST_CASE(a_long_hold_hears_of_a_deletion_that_a_watch_of_everything_is_not_told_of) {
  pool_story s(with(usual(), [](pool_options& o) { o.own_entry_delay = 1s; }));
  s.hold();
  EXPECT(s.after(999ms), "watch #3 from 1");
  EXPECT(s.after(1ms), "watch #4 s1 from 12");
  s.consul.remove_tree("p", s.now);
  EXPECT(s.key_watched(), "lose A session_invalidated", "destroy s1");
}

/// A watch of everything would send all entries to each process at each handoff.
BOOST_AUTO_TEST_CASE(some_slots_of_one_process_are_watched_one_by_one) {
  pool_story s(one_by_one(10));
  s.hold();
  EXPECT(s.after(5ms), "watch #3 s1 from 12", "watch #4 record from 12");
  s.acquire(2);
  s.created();
  s.done();
  EXPECT(s.run(), "watch #7 record from 14");
  EXPECT(s.after(5ms), "watch #8 s2 from 14");
}

BOOST_AUTO_TEST_CASE(where_single_keys_cannot_be_watched_everything_is) {
  holder_in_a_crowd s(with(directed(), [](pool_options& o) { o.outage_grace = 10s; }));
  s.after(5ms);
  const std::size_t before = s.requests;
  for (const time_point end = s.now + 1s; s.now < end; s.after(1ms)) {
    if (s.key_watch_open()) s.key_watch_fails();
    s.run();
  }
  BOOST_TEST(s.requests - before < 30u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The core with a mutex's key instead of a semaphore's record. pool_story.hpp says how to read its actions.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "protocol/pool/mutex_policy.hpp"
#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct mutex_story : pool_story {
  explicit mutex_story(pool_options o = usual_mutex()) : pool_story(std::move(o)) {}
  void holder_writes(std::string value) {
    BOOST_TEST(
        consul.transact({{kv_verb::lock, "p/.lock", std::move(value), mutex_flags, 0, real("s1")}}, now).applied);
  }
};

/// Holds slot A with s1, index 12.
struct mutex_holder : mutex_story {
  mutex_holder() { hold(); }
};
struct watching_mutex_holder : mutex_holder {
  watching_mutex_holder() { after(20ms); }
};
/// A pool that has seen that another process waits: s2.
struct contested_mutex : watching_mutex_holder {
  contested_mutex() {
    others_join();
    watched();
  }
};

/// A pool among many contenders. A waiter watches its own entry first, #3. This waiter is s7, and s1 holds.
struct mutex_crowd : mutex_story {
  mutex_crowd() : mutex_story(options()) {
    for (int i = 0; i < 6; ++i) others_join();
    others_grant("s1", "s1");
    hold();
  }
  static pool_options options() {
    return with(usual_mutex(), [](pool_options& o) { o.own_watch = 100ms, o.own_watch_each = 5ms; });
  }
};

event::value_written withdrawn(std::uint64_t proclaim) {
  return {proclaim, {}, event::value_written::stage::withdrawn};
}
event::value_written over(std::uint64_t proclaim) { return {proclaim, {}, event::value_written::stage::over}; }

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_mutex, mutex_story)

BOOST_AUTO_TEST_CASE(an_acquire_takes_the_key_and_queues_its_entry_in_one_write_and_its_release_is_another) {
  EXPECT(acquire(1), "read #1");
  EXPECT(listed(), "create m1");
  EXPECT(created(), "txn #2: if none | take s1 us | lock s1");
  EXPECT(done(), "grant t1 A 12.0");
  BOOST_TEST(record() == "{s1}");
  BOOST_TEST(consul.get("p/.lock")->flags == mutex_flags);
  EXPECT(release('A'), "txn #3: if @12 | let go s1 us | remove s1 | tree");
  EXPECT(done(), "released A");
  BOOST_TEST(record() == "{}");
  EXPECT(acquire(2), "txn #4: if @13 | take s1 us | lock s1");
  EXPECT(done(), "grant t2 B 14.0");
}

BOOST_FIXTURE_TEST_CASE(a_release_gives_the_key_to_the_session_of_whoever_waits, contested_mutex) {
  EXPECT(release('A'), "txn #5: if @12 | let go s1 us | take s2 other | grant s2 other @14 +1 | remove s1");
  EXPECT(done(), "released A");
  BOOST_TEST(record() == "{s2}");
}

BOOST_FIXTURE_TEST_CASE(a_waiter_hears_of_its_grant_by_its_own_entry, mutex_crowd) {
  others_grant("s7", "s7", "s2 s3");
  EXPECT(key_watched(), "grant t1 A 26.0");
  EXPECT(release('A'), "txn #4: if @26 | let go s7 us | take s2 other | grant s2 other @14 +1 next s3 | remove s7");
  EXPECT(done(), "released A");
  BOOST_TEST(record() == "{s2}");
}

BOOST_FIXTURE_TEST_CASE(a_holder_among_many_watches_its_entry_and_the_key, mutex_crowd) {
  others_grant("s7", "s7", "s2 s3 s4 s5 s6");
  key_watched();
  EXPECT(after(10ms), "watch #4 s7 from 26", "watch #5 record from 26");
  EXPECT(tell(event::key_watched{5, {}, {make_error_code(error::server_error), {}}}), "note", "update A suspect",
         "lose A watch_failed");
  EXPECT(release('A'),
         "txn #6: if @26 | let go s7 us | take s2 other | grant s2 other @14 +1 next s3 s4 s5 s6 | remove s7");
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_client_is_waited_for_with_a_watch_of_everything) {
  const std::string go = go_takes();
  EXPECT(try_acquire(1), "read #1");
  EXPECT(listed(), "deny t1");
  BOOST_TEST(entries() == "");
  EXPECT(acquire(2), "create m1");
  EXPECT(created(), "txn #2: lock s2 | tree");
  EXPECT(done(), "watch #3 from 14");
  EXPECT(after(4s));
  go_lets_go(go);
  EXPECT(watched(), "watch #4 from 15", "txn #5: if @15 | take s2 us | grant s2 us @14 +1");
  EXPECT(done(), "grant t2 A 16.0");
}

BOOST_AUTO_TEST_CASE(a_mutex_whose_holder_died_is_taken_by_the_first_in_the_queue) {
  others_join();
  others_grant("s1", "s1");
  hold();
  consul.destroy_session(real("s1"), now);  // its keys go with it: the lock key, too
  BOOST_TEST(record() == "none");
  run();
  BOOST_TEST(record() == "{s2}");
}

BOOST_AUTO_TEST_CASE(who_takes_the_key_first_has_it) {
  ask();
  go_takes();
  EXPECT(done(), "txn #3: lock s1 | tree");
  EXPECT(done(), "watch #4 from 15");
}

BOOST_FIXTURE_TEST_CASE(a_holder_whose_key_is_taken_away_has_lost, watching_mutex_holder) {
  consul.remove("p/.lock", now);
  EXPECT(watched(), "lose A removed", "txn #4: remove s1 @12");
}

BOOST_AUTO_TEST_CASE(a_key_of_another_application_is_left_alone) {
  consul.put("p/.lock", "{}", semaphore_flags, now);
  acquire(1);
  EXPECT(listed(), "fail t1 the key belongs to something other than a mutex");
}

// A holder writes into its key while it holds it, as a leader that proclaims does.

BOOST_FIXTURE_TEST_CASE(what_the_holder_has_written_stays_when_the_key_is_let_go, watching_mutex_holder) {
  holder_writes("new");
  EXPECT(tell(event::value_written{1, "new"}));
  EXPECT(watched(), "watch #4 from 13");
  EXPECT(release('A'), "txn #5: if @13 | let go s1 new | remove s1 | tree");
  EXPECT(done(), "released A");
  BOOST_TEST(consul.get("p/.lock")->value == "new");
}

BOOST_AUTO_TEST_CASE(what_the_holder_may_have_written_stays_and_what_it_has_not_does_not) {
  struct row {
    std::vector<event::value_written> told;
    std::string stays;
  };
  for (const row& each : {row{{{1, "new"}}, "new"},  // before it is known whether that is done
                          row{{{1, "new"}, withdrawn(1)}, "us"},
                          row{{{1, "late, perhaps"}, over(1), {2, "new"}, withdrawn(2)}, "late, perhaps"}}) {
    mutex_holder s;
    for (const auto& what : each.told) EXPECT(s.tell(what));
    EXPECT(s.release('A'), "txn #3: if @12 | let go s1 " + each.stays + " | remove s1 | tree");
  }
}

BOOST_AUTO_TEST_CASE(two_writes_that_overlap_and_both_fail_leave_what_stood_there_before) {
  for (const std::string second : {"second", "first"})
    for (const bool in_order : {true, false})
      for (const bool after_another : {false, true}) {
        mutex_holder s;
        if (after_another) s.tell(event::value_written{1, "before"});
        if (after_another) s.tell(over(1));
        s.tell(event::value_written{2, "first"});
        s.tell(event::value_written{3, second});
        s.tell(withdrawn(in_order ? 2 : 3));
        s.tell(withdrawn(in_order ? 3 : 2));
        const std::string stays = after_another ? "before" : "us";
        EXPECT(s.release('A'), "txn #3: if @12 | let go s1 " + stays + " | remove s1 | tree");
      }
}

/// The values that the policy of a mutex leaves in the key.
BOOST_AUTO_TEST_CASE(of_writes_that_overlap_the_last_try_stays_that_was_not_withdrawn) {
  struct row {
    std::vector<event::value_written> told;
    std::optional<std::string> stays;
  };
  const event::value_written a{1, "a"}, b{2, "b"};
  for (const row& each : {row{{}, {}}, row{{a, b}, "b"}, row{{a, b, withdrawn(1)}, "b"}, row{{a, b, withdrawn(2)}, "a"},
                          row{{a, b, over(1)}, "b"}, row{{a, b, over(1), withdrawn(2)}, "a"},
                          row{{a, b, over(2), withdrawn(1)}, "b"},     // the first one was refused, and tried no more
                          row{{a, b, over(2), a}, "a"},                // the first one tries again
                          row{{a, b, over(2), a, withdrawn(1)}, "b"},  // and again in vain
                          row{{a, b, a, withdrawn(1), withdrawn(2)}, {}}, row{{a, b, over(2), over(1)}, "b"},
                          row{{withdrawn(1), over(2)}, {}}}) {  // these two never got so far as to write
    mutex_policy policy;
    for (event::value_written what : each.told) policy.written(what);
    BOOST_TEST((policy.value() == each.stays));
    policy.granted_anew();
    BOOST_TEST(!policy.value().has_value());
  }
}

BOOST_FIXTURE_TEST_CASE(a_release_that_has_not_seen_what_the_holder_wrote_looks_and_goes_on, mutex_holder) {
  holder_writes("new");
  tell(event::value_written{1, "new"});
  EXPECT(release('A'), "txn #3: if @12 | let go s1 new | remove s1 | tree");
  EXPECT(done(), "read #4");
  EXPECT(listed(), "txn #5: if @13 | let go s1 new | remove s1 | tree");
  EXPECT(done(), "released A");
}

BOOST_FIXTURE_TEST_CASE(who_comes_next_has_its_own_value, contested_mutex) {
  holder_writes("new");
  tell(event::value_written{1, "new"});
  watched();
  EXPECT(release('A'), "txn #6: if @15 | let go s1 new | take s2 other | grant s2 other @14 +1 | remove s1");
  done();
  BOOST_TEST(consul.get("p/.lock")->value == "other");
}

BOOST_FIXTURE_TEST_CASE(what_was_written_is_forgotten_with_its_hold, mutex_holder) {
  tell(event::value_written{1, "new"});
  release('A');
  done();
  tell(event::value_written{2, "late"});  // of what was done before
  acquire(2);
  done();
  EXPECT(release('B'), "txn #5: if @14 | let go s1 us | remove s1 | tree");
}

// Go's clients wait without an entry. So from time to time the key is free for the first that takes it.

BOOST_AUTO_TEST_CASE(after_a_second_from_hand_to_hand_the_key_is_let_go_but_not_by_a_refused_write) {
  for (const bool is_refused : {false, true}) {
    contested_mutex s;
    s.after(1s);
    EXPECT(s.release('A'), "txn #5: if @12 | let go s1 us | grant s2 other @14 +0 | remove s1");
    if (is_refused) {
      s.leaves("s2");
      s.others_join();
      EXPECT(s.done(), "read #6");
      EXPECT(s.listed(), "txn #7: if @12 | let go s1 us | grant s3 other @17 +0 | remove s1");
    }
    EXPECT(s.done(), "released A");
    BOOST_TEST(s.record() == "{}");
  }
}

BOOST_FIXTURE_TEST_CASE(so_it_is_from_hand_to_hand_in_one_process, mutex_holder) {
  after(900ms);
  acquire(2);
  acquire(3);
  EXPECT(release('A'), "released A", "grant t2 B 12.1");
  after(200ms);
  EXPECT(release('B'), "txn #4: if @12 | let go s1 us | remove s1 | lock s1 | tree");
  EXPECT(done(), "released B");
  BOOST_TEST(record() == "{}");
  EXPECT(after(20ms), "txn #5: if @13 | take s1 us | grant s1 us @13 +1");
  EXPECT(done(), "grant t3 C 14.0");
}

BOOST_AUTO_TEST_CASE(what_is_kept_while_nobody_wants_it_is_let_go_as_well) {
  pool_story s(with(usual_mutex(), [](pool_options& o) { o.slot_idle_timeout = 10s; }));
  s.hold();
  s.after(500ms);
  EXPECT(s.release('A'), "released A");
  EXPECT(s.after(600ms), "txn #4: if @12 | let go s1 us | remove s1 | tree");
}

BOOST_FIXTURE_TEST_CASE(whoever_is_woken_has_an_entry_that_differs, watching_mutex_holder) {
  const std::string words(1000, '"');  // each is two when it is written as a part of another value
  const std::string other = real(others_join());
  consul.transact({{kv_verb::lock, "p/.lock/" + other, words, contender_magic, 0, other}}, now);
  watched();
  after(1s);
  release('A');
  done();
  BOOST_TEST(consul.get("p/.lock/" + other)->value != words);
}

BOOST_FIXTURE_TEST_CASE(who_is_woken_without_a_grant_takes_the_key_if_it_is_free, mutex_crowd) {
  for (const char* each : {"s2", "s3", "s4", "s5", "s6"}) leaves(each);
  const auto entry = *consul.get("p/.lock/" + real("s7"));
  const std::vector<kv_operation> wakes{{kv_verb::unlock, "p/.lock", "other", mutex_flags, 0, real("s1")},
                                        {kv_verb::cas, entry.key, "us\n{\"Limit\":1}", entry.flags, entry.modify_index},
                                        {kv_verb::remove, "p/.lock/" + real("s1")}};
  BOOST_TEST(consul.transact(wakes, now).applied);
  EXPECT(key_watched(), "watch #4 s7 from 31", "read #5");
  EXPECT(listed(), "txn #6: if @31 | take s7 us | grant s7 us @31 +1");
  EXPECT(done(), "grant t1 A 32.0");
}

/// After the end of its holder's session, Consul keeps the key from everybody, and does not report when that is over.
BOOST_AUTO_TEST_CASE(a_lock_delay_is_waited_for_with_growing_pauses) {
  ask();
  int tries = 0;
  for (const time_point end = now + 15s; now < end;) {
    if (txn_open()) {
      ++tries;
      BOOST_TEST(!says(refused({{1, event::refusal::lock_delay}}), "fail"));
    }
    answer_reads_and_sessions();
    BOOST_TEST(!says(after(10ms), "fail"));
  }
  BOOST_TEST(tries > 10);
  BOOST_TEST(tries < 50);
}

BOOST_FIXTURE_TEST_CASE(after_the_next_lock_delay_the_pauses_are_short_again, mutex_crowd) {
  const auto is_delayed = [&](int times) {
    for (int tries = 0; tries != times; after(1ms)) {
      run(false);
      if (!txn_open()) continue;
      refused({{1, event::refusal::lock_delay}});
      ++tries;
    }
  };
  const auto takes = [&](const std::string& session) {
    const std::vector<kv_operation> take{{kv_verb::lock, "p/.lock", "other", mutex_flags, 0, session}};
    BOOST_TEST(consul.transact(take, now).applied);
  };
  const std::string other = real("s2");
  consul.destroy_session(real("s1"), now);
  for (const char* each : {"s3", "s4", "s5", "s6"}) leaves(each);
  is_delayed(8);
  takes(other);
  run(false);
  consul.destroy_session(other, now);
  is_delayed(1);
  go_on(50ms);
  BOOST_TEST(record() == "{s7}");
}

/// The pause was for the next attempt to take the key.
BOOST_FIXTURE_TEST_CASE(a_release_does_not_wait_for_the_pause_after_a_lock_delay, mutex_crowd) {
  for (const char* each : {"s2", "s3", "s4", "s5", "s6"}) leaves(each);
  consul.destroy_session(real("s1"), now);
  for (int tries = 0; tries != 8; after(1ms)) {
    run(false);
    if (!txn_open()) continue;
    refused({{1, event::refusal::lock_delay}});
    ++tries;
  }
  const auto entry = *consul.get("p/.lock/" + real("s7"));
  BOOST_TEST(consul
                 .transact({{kv_verb::lock, "p/.lock", "us", mutex_flags, 0, real("s7")},
                            {kv_verb::cas, entry.key, entry.value, entry.flags + 1, entry.modify_index}},
                           now)
                 .applied);
  others_join();
  BOOST_TEST(says(run(false), "grant t1 A"));
  release('A');
  BOOST_TEST(txn_open());
}

BOOST_AUTO_TEST_SUITE_END()

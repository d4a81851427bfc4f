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

BOOST_AUTO_TEST_SUITE_END()

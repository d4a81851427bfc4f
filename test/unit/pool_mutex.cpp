// The machine with a mutex's key instead of a semaphore's record: see pool_story.hpp for how its answers read.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

struct mutex_story : pool_story {
  mutex_story() : pool_story(usual_mutex()) {}
  void holder_writes(std::string_view session, std::string value) {
    const auto reply =
        consul.transact({{kv_verb::lock, "p/.lock", std::move(value), mutex_flags, 0, real(session)}}, now);
    BOOST_TEST(reply.applied);
  }
};

/// Where many contend: who waits watches its own entry first.
struct mutex_crowd : pool_story {
  mutex_crowd() : pool_story(options()) {
    for (int i = 0; i < 6; ++i) others_join();
    others_grant("s1", "s1");
  }
  static pool_options options() {
    pool_options o = usual_mutex();
    o.own_watch = 100ms;
    o.own_watch_each = 5ms;
    return o;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_mutex)

BOOST_AUTO_TEST_CASE(the_first_acquire_takes_the_key_and_queues_its_entry_in_one_write) {
  mutex_story s;
  EXPECT(s.acquire(1), "read #1");
  EXPECT(s.listed(), "create m1");
  EXPECT(s.created(), "txn #2: if none | take s1 us | lock s1");
  EXPECT(s.done(), "grant t1 A 12.0");
  BOOST_TEST(s.record() == "{s1}");
  BOOST_TEST(s.consul.get("p/.lock")->flags == mutex_flags);
}

BOOST_AUTO_TEST_CASE(an_acquire_and_its_release_are_one_write_each) {
  mutex_story s;
  s.hold();
  EXPECT(s.release('A'), "txn #3: if @12 | let go s1 us | remove s1 | tree");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.record() == "{}");
  EXPECT(s.acquire(2), "txn #4: if @13 | take s1 us | lock s1");
  EXPECT(s.done(), "grant t2 B 14.0");
}

BOOST_AUTO_TEST_CASE(a_release_gives_the_key_to_the_session_of_whoever_waits) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  EXPECT(s.watched(), "watch #4 from 14");
  EXPECT(s.release('A'), "txn #5: if @12 | let go s1 us | take s2 other | grant s2 other @14 +1 | remove s1");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.record() == "{s2}");
}

BOOST_AUTO_TEST_CASE(a_waiter_hears_of_its_grant_by_its_own_entry) {
  mutex_crowd s;
  EXPECT(s.acquire(1), "read #1");
  EXPECT(s.listed(), "create m1");
  EXPECT(s.created(), "txn #2: lock s7 | look");
  EXPECT(s.done(), "watch #3 s7 from 25");
  s.others_grant("s7", "s7", "s2 s3");
  EXPECT(s.key_watched(), "grant t1 A 26.0");
  EXPECT(s.release('A'), "txn #4: if @26 | let go s7 us | take s2 other | grant s2 other @14 +1 next s3 | remove s7");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.record() == "{s2}");
}

BOOST_AUTO_TEST_CASE(a_holder_among_many_watches_its_entry_and_the_key) {
  mutex_crowd s;
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.others_grant("s7", "s7", "s2 s3 s4 s5 s6");
  s.key_watched();
  EXPECT(s.after(10ms), "watch #4 s7 from 26", "watch #5 record from 26");
  EXPECT(s.tell(event::key_watched{5, {}, {make_error_code(error::server_error), {}}}), "note", "update A suspect",
         "lose A watch_failed");
  EXPECT(s.release('A'),
         "txn #6: if @26 | let go s7 us | take s2 other | grant s2 other @14 +1 next s3 s4 s5 s6 | remove s7");
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_client_is_waited_for_with_a_watch_of_everything) {
  mutex_story s;
  const std::string go = s.go_takes();
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: lock s2 | tree");
  EXPECT(s.done(), "watch #3 from 14");
  EXPECT(s.after(4s));
  s.go_lets_go(go);
  EXPECT(s.watched(), "watch #4 from 15", "txn #5: if @15 | take s2 us | grant s2 us @14 +1");
  EXPECT(s.done(), "grant t1 A 16.0");
}

BOOST_AUTO_TEST_CASE(a_single_look_is_denied_while_another_client_holds) {
  mutex_story s;
  s.go_takes();
  EXPECT(s.try_acquire(1), "read #1");
  EXPECT(s.listed(), "deny t1");
  BOOST_TEST(s.entries() == "");
}

BOOST_AUTO_TEST_CASE(a_mutex_whose_holder_died_is_taken_by_the_first_in_the_queue) {
  mutex_story s;
  const std::string other = s.others_join();
  s.others_grant(other, other);
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.consul.destroy_session(s.real(other), s.now);  // its keys go with it: the lock key, too
  BOOST_TEST(s.record() == "none");
  s.run();
  BOOST_TEST(s.record() == "{s2}");
}

BOOST_AUTO_TEST_CASE(who_takes_the_key_first_has_it) {
  mutex_story s;
  s.acquire(1);
  s.listed();
  s.created();
  s.go_takes();
  EXPECT(s.done(), "txn #3: lock s1 | tree");
  EXPECT(s.done(), "watch #4 from 15");
}

BOOST_AUTO_TEST_CASE(a_holder_whose_key_is_taken_away_has_lost) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.consul.remove("p/.lock", s.now);
  EXPECT(s.watched(), "lose A removed", "txn #4: remove s1 @12");
}

BOOST_AUTO_TEST_CASE(a_key_of_another_application_is_left_alone) {
  mutex_story s;
  s.consul.put("p/.lock", "{}", semaphore_flags, s.now);
  s.acquire(1);
  EXPECT(s.listed(), "fail t1 the key belongs to something other than a mutex");
}

// What a holder writes into its key under its hold, as a leader does that proclaims.

BOOST_AUTO_TEST_CASE(what_the_holder_has_written_stays_when_the_key_is_let_go) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.holder_writes("s1", "new");
  EXPECT(s.tell(event::value_written{"new"}));
  EXPECT(s.watched(), "watch #4 from 13");
  EXPECT(s.release('A'), "txn #5: if @13 | let go s1 new | remove s1 | tree");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.consul.get("p/.lock")->value == "new");
}

BOOST_AUTO_TEST_CASE(what_the_holder_may_have_written_stays_and_what_it_has_not_does_not) {
  mutex_story s;
  s.hold();
  s.tell(event::value_written{"new"});  // before it is known whether that is done
  EXPECT(s.release('A'), "txn #3: if @12 | let go s1 new | remove s1 | tree");
  mutex_story other;
  other.hold();
  other.tell(event::value_written{"new"});
  EXPECT(other.tell(event::value_written{"new", true}));
  EXPECT(other.release('A'), "txn #3: if @12 | let go s1 us | remove s1 | tree");
  mutex_story third;
  third.hold();
  third.tell(event::value_written{"late, perhaps"});
  third.tell(event::value_written{"new"});
  third.tell(event::value_written{"new", true});
  EXPECT(third.release('A'), "txn #3: if @12 | let go s1 late, perhaps | remove s1 | tree");
}

BOOST_AUTO_TEST_CASE(a_release_that_has_not_seen_what_the_holder_wrote_looks_and_goes_on) {
  mutex_story s;
  s.hold();
  s.holder_writes("s1", "new");
  s.tell(event::value_written{"new"});
  EXPECT(s.release('A'), "txn #3: if @12 | let go s1 new | remove s1 | tree");
  EXPECT(s.done(), "read #4");
  EXPECT(s.listed(), "txn #5: if @13 | let go s1 new | remove s1 | tree");
  EXPECT(s.done(), "released A");
}

BOOST_AUTO_TEST_CASE(who_comes_next_has_its_own_value) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  s.watched();
  s.holder_writes("s1", "new");
  s.tell(event::value_written{"new"});
  s.watched();
  EXPECT(s.release('A'), "txn #6: if @15 | let go s1 new | take s2 other | grant s2 other @14 +1 | remove s1");
  s.done();
  BOOST_TEST(s.consul.get("p/.lock")->value == "other");
}

BOOST_AUTO_TEST_CASE(what_was_written_is_forgotten_with_its_hold) {
  mutex_story s;
  s.hold();
  s.tell(event::value_written{"new"});
  s.release('A');
  s.done();
  s.tell(event::value_written{"late"});  // of what was done before
  s.acquire(2);
  s.done();
  EXPECT(s.release('B'), "txn #5: if @14 | let go s1 us | remove s1 | tree");
}

// Go's clients wait without a trace: once in a while the key is free for whoever comes first.

BOOST_AUTO_TEST_CASE(after_a_second_from_hand_to_hand_the_key_is_let_go) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  s.watched();
  s.after(1s);
  EXPECT(s.release('A'), "txn #5: if @12 | let go s1 us | grant s2 other @14 +0 | remove s1");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.record() == "{}");
}

BOOST_AUTO_TEST_CASE(so_it_is_from_hand_to_hand_in_one_process) {
  mutex_story s;
  s.hold();
  s.after(900ms);
  s.acquire(2);
  s.acquire(3);
  EXPECT(s.release('A'), "released A", "grant t2 B 12.1");
  s.after(200ms);
  EXPECT(s.release('B'), "txn #4: if @12 | let go s1 us | remove s1 | lock s1 | tree");
  EXPECT(s.done(), "released B");
  BOOST_TEST(s.record() == "{}");
  EXPECT(s.after(20ms), "txn #5: if @13 | take s1 us | grant s1 us @13 +1");
  EXPECT(s.done(), "grant t3 C 14.0");
}

BOOST_AUTO_TEST_CASE(what_is_kept_while_nobody_wants_it_is_let_go_as_well) {
  pool_options o = pool_story::usual_mutex();
  o.slot_idle_timeout = 10s;
  pool_story s(o);
  s.hold();
  s.after(500ms);
  EXPECT(s.release('A'), "released A");
  EXPECT(s.after(600ms), "txn #4: if @12 | let go s1 us | remove s1 | tree");
}

BOOST_AUTO_TEST_CASE(a_refused_write_has_not_let_it_go) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  s.watched();
  s.after(1s);
  EXPECT(s.release('A'), "txn #5: if @12 | let go s1 us | grant s2 other @14 +0 | remove s1");
  s.leaves("s2");
  s.others_join();
  EXPECT(s.done(), "read #6");
  EXPECT(s.listed(), "txn #7: if @12 | let go s1 us | grant s3 other @17 +0 | remove s1");
}

BOOST_AUTO_TEST_CASE(whoever_is_woken_has_an_entry_that_differs) {
  mutex_story s;
  s.hold();
  s.after(20ms);
  const std::string words(1000, '"');  // each is two when it is written as a part of another value
  s.consul.transact({{kv_verb::lock, "p/.lock/" + s.real(s.others_join()), words, contender_magic, 0, s.real("s2")}},
                    s.now);
  s.watched();
  s.after(1s);
  s.release('A');
  s.done();
  BOOST_TEST(s.consul.get("p/.lock/" + s.real("s2"))->value != words);
}

BOOST_AUTO_TEST_CASE(who_is_woken_without_a_grant_takes_the_key_if_it_is_free) {
  mutex_crowd s;
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  for (const char* each : {"s2", "s3", "s4", "s5", "s6"}) s.leaves(each);
  const auto entry = *s.consul.get("p/.lock/" + s.real("s7"));
  BOOST_TEST(s.consul
                 .transact({{kv_verb::unlock, "p/.lock", "other", mutex_flags, 0, s.real("s1")},
                            {kv_verb::cas, entry.key, "us\n{\"Limit\":1}", entry.flags, entry.modify_index},
                            {kv_verb::remove, "p/.lock/" + s.real("s1")}},
                           s.now)
                 .applied);
  EXPECT(s.key_watched(), "watch #4 s7 from 31", "read #5");
  EXPECT(s.listed(), "txn #6: if @31 | take s7 us | grant s7 us @31 +1");
  EXPECT(s.done(), "grant t1 A 32.0");
}

/// Consul keeps the key from everybody after its holder's session ended, and tells nobody when that is over.
BOOST_AUTO_TEST_CASE(a_lock_delay_is_waited_for_with_growing_pauses) {
  mutex_story s;
  s.acquire(1);
  s.listed();
  s.created();
  const time_point begin = s.now;
  int tries = 0;
  while (s.now < begin + 15s) {
    if (s.txn_open()) {
      ++tries;
      for (const std::string& line : s.refused({{1, event::refusal::lock_delay}}))
        BOOST_TEST(!line.starts_with("fail"), line);
    }
    s.answer_reads_and_sessions();
    for (const std::string& line : s.after(10ms)) BOOST_TEST(!line.starts_with("fail"), line);
  }
  BOOST_TEST(tries > 10);
  BOOST_TEST(tries < 50);
}

BOOST_AUTO_TEST_SUITE_END()

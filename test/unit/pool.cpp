// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/pool.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

// The core of a semaphore is told step by step what happens. pool_story.hpp says how to read its actions.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using lines = pool_story::lines;

/// A pool that asks for a slot and has a session. The write that takes the slot is pending.
struct asker : pool_story {
  asker() { ask(); }
};

/// A pool that waits with s2 behind another process, s1.
struct queuer : pool_story {
  queuer() {
    record_becomes(others_join());
    hold();
  }
};

/// Holds slot A with s1.
struct holder : pool_story {
  explicit holder(pool_options o = usual()) : pool_story(std::move(o)) { hold(); }
};
struct holder_of_one_of_two : holder {
  holder_of_one_of_two() : holder(usual(2)) {}
};

/// Holds slot A, and watches: #3.
struct watcher : holder {
  explicit watcher(pool_options o = usual()) : holder(std::move(o)) { after(10ms); }
};

/// Holds slot A, and has seen that another process waits for it: s2.
struct contested : watcher {
  contested() {
    others_join();
    watched();
  }
};

/// A pool that has held the slot and released it. Its session, s1, is kept.
struct idle_session : holder {
  idle_session() {
    release('A');
    done();
  }
};

/// Returns the lease end that the pool last reported for a slot.
time_point granted_until(const pool_story& s) {
  time_point deadline{};
  for (const core_action& a : s.actions()) {
    if (const auto* grant = std::get_if<action::grant>(&a)) deadline = grant->deadline;
    if (const auto* update = std::get_if<action::update>(&a)) deadline = update->deadline;
  }
  return deadline;
}

const failure& failed_with(const pool_story& s) {
  for (const core_action& a : s.actions())
    if (const auto* fail = std::get_if<action::fail>(&a)) return fail->error;
  BOOST_FAIL("nothing failed");
  static const failure none;
  return none;
}

/// Answers all requests of the pool with success until it sends none. Then nothing of it may be left in Consul.
void check_nothing_is_left(pool_story& s) {
  for (int i = 0; i < 20 && s.answer_all(); ++i) s.after(100ms);
  BOOST_TEST(s.entries() == "");
  BOOST_TEST((s.record() == "{}" || s.record() == "none"), s.record());
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool, pool_story)

// --- What it costs

BOOST_AUTO_TEST_CASE(the_first_acquire_looks_creates_a_session_and_takes_the_slot_in_one_write) {
  for (const bool single_look : {false, true}) {
    pool_story s;
    EXPECT(single_look ? s.try_acquire(1) : s.acquire(1), "read #1");
    EXPECT(s.listed(), "create m1");
    EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1");
    EXPECT(s.done(), "grant t1 A 12.0");
    BOOST_TEST(s.record() == "{s1}");
  }
}

BOOST_FIXTURE_TEST_CASE(a_warm_acquire_and_its_release_are_one_write_each, holder) {
  EXPECT(release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(done(), "released A");
  after(1s);
  const std::size_t before = requests;
  EXPECT(acquire(2), "txn #4: cas @13 {s1} | lock s1");
  EXPECT(done(), "grant t2 B 14.0");
  EXPECT(release('B'), "txn #5: cas @14 {} | remove s1 | tree");
  EXPECT(done(), "released B");
  BOOST_TEST(requests - before == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_release_hands_the_slot_to_the_next_local_waiter_in_order_without_a_request, holder) {
  for (std::uint64_t t = 2; t <= 4; ++t) EXPECT(acquire(t));
  EXPECT(release('A'), "released A", "grant t2 B 12.1");
  EXPECT(release('B'), "released B", "grant t3 C 12.2");
  EXPECT(release('C'), "released C", "grant t4 D 12.3");
}

BOOST_AUTO_TEST_CASE(ten_thousand_waiters_cost_nothing_while_all_slots_are_in_use) {
  pool_story s(usual(4));
  s.hold(1, 4);
  const std::size_t before = s.requests;
  for (std::uint64_t t = 2; t != 10'002; ++t) s.acquire(t);
  core_actions out;
  s.pool().step(event::release{s.slot('A')}, s.now, out);
  std::uint64_t next = 2;
  for (std::size_t i = 0; i != out.size(); ++i) {
    const auto* grant = std::get_if<action::grant>(&out[i]);
    if (!grant) continue;
    BOOST_REQUIRE(grant->ticket == ticket{next++});
    const slot_id granted = grant->slot;
    if (next <= 10'001 || s.pool().status().waiting != 0) s.pool().step(event::release{granted}, s.now, out);
  }
  BOOST_TEST(next == 10'002u);
  BOOST_TEST(s.requests == before);
  BOOST_TEST(s.pool().status().sessions == 4u);
}

// --- Wide requests

BOOST_AUTO_TEST_CASE(n_slots_are_taken_in_one_write_and_given_back_in_one) {
  pool_story s(usual(3));
  EXPECT(s.acquire(1, 2), "read #1");
  EXPECT(s.listed(), "create m1", "create m2");
  EXPECT(s.created());
  EXPECT(s.created(), "txn #2: cas @0 {s1 s2} | lock s1 | lock s2");
  EXPECT(s.done(), "grant t1 A 13.0");
  EXPECT(s.release('A'), "txn #3: cas @13 {} | remove s1 | remove s2");
  EXPECT(s.done(), "released A");
}

BOOST_FIXTURE_TEST_CASE(a_wide_request_is_all_or_nothing_and_is_not_overtaken, holder_of_one_of_two) {
  EXPECT(acquire(2, 2));
  EXPECT(acquire(3));
  EXPECT(try_acquire(4), "deny t4");
  EXPECT(release('A'), "released A", "create m2");
  EXPECT(created(), "txn #3: cas @12 {s1 s2} | lock s2");
  EXPECT(done(), "grant t2 B 14.0");
  EXPECT(release('B'), "grant t3 C 12.2", "txn #4: cas @14 {s1} | remove s2 | tree");
}

BOOST_AUTO_TEST_CASE(more_slots_than_there_are_and_more_waiters_than_there_may_be_fail_at_once) {
  pool_story s(with(usual(2), [](pool_options& o) { o.waiters_max = 2; }));
  EXPECT(s.acquire(1, 3), "fail t1 the number of slots is 0, over the limit or over 60");
  EXPECT(s.acquire(2, 0), "fail t2 the number of slots is 0, over the limit or over 60");
  BOOST_TEST(s.requests == 0u);
  s.acquire(3);
  s.acquire(4);
  EXPECT(s.acquire(5), "fail t5 the local queue is full");
  EXPECT(s.cancel(4), "fail t4 Operation canceled");
  EXPECT(s.acquire(6));
}

BOOST_AUTO_TEST_CASE(of_two_wide_requests_who_does_not_stand_first_gives_its_part_back) {
  pool_story s(usual(2));
  s.others_join();
  s.others_join();  // theirs stand first
  s.record_becomes("");
  s.look(1, 2);
  s.created();
  EXPECT(s.created(), "txn #2: lock s3 | lock s4 | tree");
  EXPECT(s.done(), "watch #3 from 18");
  s.others_grant("s1 s3", "s1 s3");  // an unfair grant: half for each
  EXPECT(s.watched(), "watch #4 from 19",
         "txn #5: cas @19 {s1 s2} | grant s2 other @14 +1 | remove s3 | lock s3 | remove s4 | lock s4");
}

BOOST_AUTO_TEST_CASE(a_part_that_does_not_fit_one_write_leaves_and_comes_back_together) {
  pool_story s(with(usual(4), [](pool_options& o) { o.request_bytes = 1; }));  // which six moves fit
  for (int i = 0; i != 4; ++i) s.others_join();
  s.record_becomes("");
  s.ask(1, 4);
  s.done();
  s.others_grant("s1 s2 s5 s6", "s1 s2 s5 s6");  // half for each
  EXPECT(s.watched(), "watch #4 from 25",
         "txn #5: cas @25 {s1 s2 s3} | grant s3 other @16 +1 | remove s6 | remove s5 | remove s8 @24 | remove s7 @24 | "
         "tree");
  EXPECT(s.done(), "txn #6: cas @26 {s1 s2 s3 s4} | grant s4 other @18 +1 | lock s5 | lock s6 | lock s7 | lock s8");
}

BOOST_AUTO_TEST_CASE(a_part_goes_back_alone_if_enough_of_those_that_wait_stand_together) {
  pool_story s(usual(3));
  for (int i = 0; i != 3; ++i) s.others_join();
  s.record_becomes("");
  s.ask(1, 2);
  s.acquire(2);
  s.run();
  BOOST_TEST(s.entries() == "s1 s2 s3 s4 s5 s6");
  s.others_grant("s1 s2 s4", "s1 s2 s4");
  EXPECT(s.watched(), "watch #6 from 23",
         "txn #7: cas @23 {s1 s2 s3} | grant s3 other @16 +1 next s5 s6 | remove s4 | lock s4");
}

BOOST_AUTO_TEST_CASE(a_slot_that_goes_back_costs_nobody_here_a_place_in_the_queue) {
  pool_story s(usual(2));
  s.record_becomes(s.others_join());
  s.hold();
  s.others_join();
  s.go_on();
  s.acquire(2);
  s.run();
  BOOST_TEST(s.entries() == "s1 s2 s3 s4");
  s.after(150ms);  // the time for local handoffs is over
  const std::string write = last_of(s.release('A'));
  BOOST_TEST(write.ends_with(" {s1 s3} | grant s3 other @17 +1 next s4 | remove s2"), write);
}

BOOST_AUTO_TEST_CASE(a_burst_creates_some_sessions_at_a_time) {
  pool_story s(usual(100));
  pool_story::lines all = s.acquire(1);
  for (std::uint64_t t = 2; t != 41; ++t) append(all, s.acquire(t));
  append(all, s.listed());
  BOOST_TEST(times(all, "create ") == 16u);
  BOOST_TEST(times(s.created(), "create ") == 1u);
  BOOST_TEST(times(s.run(), "grant ") == 40u);
}

BOOST_AUTO_TEST_CASE(a_request_for_many_slots_creates_all_of_its_sessions_at_once) {
  pool_story s(usual(100));
  s.acquire(1, 60);
  BOOST_TEST(times(s.listed(), "create ") == 60u);
}

/// With a distant Consul the first sessions of a request would otherwise end before the last ones are created, again
/// and again.
BOOST_AUTO_TEST_CASE(no_session_of_a_request_is_idle_for_too_long_while_the_others_are_created) {
  pool_options options = usual(100);
  options.session_idle_timeout = 300ms;
  pool_story s(options);
  s.acquire(1, 3);
  s.listed();
  s.created();
  s.created();
  EXPECT(s.after(350ms));
  BOOST_TEST(times(s.run(), "grant ") == 1u);
}

/// The session was renewed only to be ended, and is needed again when the answer comes.
BOOST_AUTO_TEST_CASE(an_idle_session_stays_for_a_request_that_is_collecting_its_sessions) {
  pool_options options = usual(100);
  options.session_idle_timeout = 300ms;
  pool_story s(options);
  s.may_read_nodes = false;
  s.hold();
  s.go('A');
  s.after(350ms);
  BOOST_REQUIRE(s.renewal_open());
  s.acquire(2, 3);
  BOOST_TEST(!says(s.renewed(), "destroy s1"));
  BOOST_TEST(says(s.run(), "grant t2"));
}

/// For a listing in a transaction, Consul does not say that the token hides a part of it.
BOOST_AUTO_TEST_CASE(a_join_that_sees_no_entry_of_any_other_holder_prunes_nobody_before_a_listing_confirms_that) {
  for (const bool is_filtered : {true, false}) {
    pool_story s;
    const std::string other = s.others_join();
    s.record_becomes(other);
    s.look(1);
    s.leaves(other);
    EXPECT(s.created(), "txn #2: lock s2 | tree");
    EXPECT(s.done(), "watch #3 from 13", "read #4");
    if (is_filtered)
      EXPECT(s.read_filtered(), "fail t1 the ACL token is missing, unknown or lacks the right");
    else
      EXPECT(s.listed(), "txn #5: cas @13 {s2} | grant s2 us @16 +1");
  }
}

BOOST_AUTO_TEST_CASE(a_part_is_kept_while_only_those_stand_before_it_whose_slots_are_free) {
  pool_story s(usual(3));
  s.go_joins();
  s.ask(1, 3);
  s.run();
  BOOST_TEST(s.record() == "{s2 s3}");
  const std::size_t before = s.requests;
  s.go_on(499ms);
  BOOST_TEST(s.requests == before);
  s.go_on(300ms);
  BOOST_TEST(s.record() == "{s2 s3 s4}");
}

BOOST_FIXTURE_TEST_CASE(what_a_write_found_is_known_when_a_listing_has_shown_it_before_the_reply,
                        holder_of_one_of_two) {
  after(20ms);
  const std::string go = go_joins(), another = go_joins();
  watched();
  acquire(2);
  after(100ms);
  EXPECT(release('A'), "txn #5: cas @12 {} | remove s1 | lock s1");
  leaves(go);
  leaves(another);
  apply_now();
  watched();
  EXPECT(done(), "released A", "watch #6 from 19", "txn #7: cas @19 {s1} | grant s1 us @19 +1");
}

BOOST_AUTO_TEST_CASE(who_stands_behind_a_look_that_was_told_no_has_the_slot_at_once) {
  holder s(usual(3));
  const std::string other = s.others_join(), another = s.others_join();
  s.record_becomes("s1 " + other + " " + another);
  s.after(20ms);
  s.watched();
  EXPECT(s.try_acquire(2, 2), "read #5");
  EXPECT(s.acquire(3));
  EXPECT(s.release('A'), "released A");
  EXPECT(s.listed(), "deny t2", "grant t3 B 12.1");
}

// --- One look

BOOST_AUTO_TEST_CASE(a_single_look_at_a_full_semaphore_is_denied_by_that_look) {
  const std::string other = others_join();
  record_becomes(other);
  EXPECT(try_acquire(1), "read #1");
  EXPECT(listed(), "deny t1");
  EXPECT(try_acquire(2), "read #2");  // what was seen before is no look for this one
  record_becomes("");
  EXPECT(listed(), "deny t2");  // it does not overtake others who wait
  leaves(other);
  try_acquire(3);
  EXPECT(listed(), "create m1");
}

BOOST_AUTO_TEST_CASE(a_single_look_does_not_get_stuck_behind_one_who_waits) {
  EXPECT(try_acquire(1), "read #1");
  EXPECT(acquire(2));
  EXPECT(try_acquire(3), "deny t3");
  record_becomes(others_join());
  EXPECT(listed(), "deny t1", "create m1");
}

BOOST_AUTO_TEST_CASE(a_single_look_that_others_beat_three_times_is_denied) {
  try_acquire(1);
  listed();
  EXPECT(created(), "txn #2: cas @0 {s1} | lock s1");
  for (int i = 0; i < 3; ++i) {
    consul.put("p/.lock", i % 2 ? R"({"Limit":1,"Holders":{}})" : R"({"Holders":{},"Limit":1})", semaphore_flags, now);
    lines answer = done();
    append(answer, after(100ms));
    if (i < 2) BOOST_TEST((answer.size() == 1 && says(answer, "read")));
    answer = listed();
    if (i < 2)
      BOOST_TEST((answer.size() == 1 && says(answer, "txn")));
    else
      EXPECT(answer, "deny t1");
  }
  check_nothing_is_left(*this);
}

BOOST_FIXTURE_TEST_CASE(looks_do_not_keep_a_slot_from_going_back, contested) {
  after(200ms);  // the time for local handoffs is over
  EXPECT(release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  not_sent();
  std::uint64_t next = 10;
  try_acquire(next++);
  try_acquire(next++);
  for (int i = 0; i < 100 && !txn_open(); ++i) {
    if (read_open())
      for (std::size_t denied = times(listed(), "deny"); denied > 0; --denied) try_acquire(next++);
    after(10ms);
    while (renewal_open()) renewed();
  }
  BOOST_TEST(txn_open());
}

BOOST_FIXTURE_TEST_CASE(a_look_denies_at_once_and_a_deadline_whoever_still_waits, holder) {
  EXPECT(try_acquire(4), "deny t4");  // it asks nobody: all slots are in use here
  EXPECT(acquire_until(2, now + 30ms));
  EXPECT(acquire(3));
  BOOST_TEST(times(after(50ms), "deny t2") == 1u);
  EXPECT(release('A'), "released A", "grant t3 B 12.1");
}

// --- Cancel, before and after each step

BOOST_AUTO_TEST_CASE(whoever_is_cancelled_on_the_way_to_a_free_slot_leaves_nothing) {
  enum step { look, session, write };
  for (const step at : {look, session, write}) {
    pool_story s;
    s.acquire(1);
    if (at != look) s.listed();
    if (at == write) s.created();
    EXPECT(s.cancel(1), "fail t1 Operation canceled");
    EXPECT(s.cancel(1));
    if (at == look) EXPECT(s.listed());
    if (at == session) EXPECT(s.created());
    if (at == write) EXPECT(s.done(), "txn #3: cas @12 {} | remove s1 | tree");
    if (at == write) EXPECT(s.done());
    BOOST_TEST(s.entries() == "");
    check_nothing_is_left(s);
  }
}

BOOST_FIXTURE_TEST_CASE(cancelled_while_the_slot_is_taken_gives_it_to_the_next, asker) {
  acquire(2);
  cancel(1);
  EXPECT(done(), "grant t2 A 12.0");
}

BOOST_AUTO_TEST_CASE(cancelled_in_the_queue_or_on_the_way_there_leaves_it) {
  for (const bool has_joined : {true, false}) {
    pool_story s;
    s.record_becomes(s.others_join());
    s.look(1);
    EXPECT(s.created(), "txn #2: lock s2 | tree");
    if (has_joined) {
      EXPECT(s.done(), "watch #3 from 15");
      EXPECT(s.cancel(1), "fail t1 Operation canceled", "txn #4: remove s2 @15");
    } else {
      EXPECT(s.cancel(1), "fail t1 Operation canceled");
      EXPECT(s.done(), "watch #3 from 15", "txn #4: remove s2 @15");
    }
    EXPECT(s.done());
    BOOST_TEST(s.entries() == "s1");
  }
}

BOOST_FIXTURE_TEST_CASE(a_join_whose_reply_is_overtaken_by_the_watch_is_left_again, holder_of_one_of_two) {
  EXPECT(after(10ms), "watch #3 from 1");
  const std::string other = others_join();
  record_becomes("s1 " + other);
  watched();
  EXPECT(acquire(2), "create m2");
  EXPECT(created(), "txn #5: lock s3 | tree");
  apply_now();                            // it is applied, its reply is on the way,
  others_join();                          // something else happens,
  EXPECT(watched(), "watch #6 from 19");  // and the watch is faster
  EXPECT(cancel(2), "fail t2 Operation canceled");
  EXPECT(done(), "txn #7: remove s3 @17");
}

BOOST_FIXTURE_TEST_CASE(granted_by_others_after_the_cancel_gives_it_on, queuer) {
  cancel(1);
  leaves("s1");
  others_grant("s2", "s2");  // faster than our leaving
  EXPECT(done(), "read #5");
  EXPECT(listed(), "txn #6: cas @17 {} | remove s2 | tree");
  done();
  check_nothing_is_left(*this);
}

// --- Others

BOOST_FIXTURE_TEST_CASE(a_release_grants_to_the_first_who_waits_elsewhere_in_the_same_write, watcher) {
  others_join();
  others_join();
  EXPECT(watched(), "watch #4 from 16");
  EXPECT(release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 next s3 | remove s1");
  EXPECT(done(), "released A");
  BOOST_TEST(record() == "{s2}");
  BOOST_TEST(entries() == "s2 s3");
}

BOOST_FIXTURE_TEST_CASE(a_contested_slot_is_handed_on_here_until_the_time_for_that_is_over_then_goes_to_the_others,
                        contested) {
  for (std::uint64_t t = 2; t <= 4; ++t) acquire(t);
  EXPECT(release('A'), "released A", "grant t2 B 12.1");
  after(100ms);
  EXPECT(release('B'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1 | lock s1");
  EXPECT(done(), "released B");
  BOOST_TEST(entries() == "s2 s1");
  others_grant("s1", "s1");
  leaves("s2");
  EXPECT(watched(), "grant t3 C 16.0");
}

BOOST_AUTO_TEST_CASE(a_fresh_slot_is_used_once_however_late_it_comes) {
  pool_story s(with(usual(), [](pool_options& o) { o.local_handoff_time = 0s; }));
  s.record_becomes(s.others_join());
  s.hold();
  s.others_join();
  s.others_grant("s2", "s2");
  s.leaves("s1");
  EXPECT(s.watched(), "grant t1 A 18.0");
}

BOOST_AUTO_TEST_CASE(an_idle_slot_stays_for_a_while) {
  holder s(with(usual(), [](pool_options& o) { o.slot_idle_timeout = 1s; }));
  EXPECT(s.release('A'), "released A");
  EXPECT(s.acquire_until(2, s.now), "grant t2 B 12.1");  // without time to wait, it reads once
  EXPECT(s.release('B'), "released B");
  EXPECT(s.acquire(3), "grant t3 C 12.2");
  EXPECT(s.release('C'), "released C");
  BOOST_TEST(last_of(s.after(1s)) == "txn #4: cas @12 {} | remove s1 | tree");
}

BOOST_AUTO_TEST_CASE(an_idle_slot_goes_at_once_when_somebody_else_comes) {
  holder s(with(usual(), [](pool_options& o) { o.slot_idle_timeout = 1h; }));
  s.release('A');
  EXPECT(s.after(10ms), "watch #3 from 1");
  s.watched();
  s.others_join();
  EXPECT(s.watched(), "watch #5 from 14", "txn #6: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
}

/// The first grant changes the entry in any case, because a plain write takes its LockIndex back. The second one
/// changes it only because of the flags.
BOOST_FIXTURE_TEST_CASE(a_slot_that_others_granted_is_used_and_granted_twice_has_the_second_grants_token, queuer) {
  others_grant("s2", "s2");
  EXPECT(watched(), "grant t1 A 16.0");
  record_becomes("");  // an operator, and somebody holds the slot meanwhile
  others_grant("s2", "s2");
  leaves("s1");
  after(10ms);
  watched();
  EXPECT(acquire(2));
  EXPECT(release('A'), "released A", "grant t2 B 18.0");
}

BOOST_AUTO_TEST_CASE(a_dead_holder_is_replaced_by_the_head_of_the_queue_at_once_and_by_the_others_after_a_while) {
  record_becomes(others_join());
  others_join();
  hold();
  leaves("s1");
  EXPECT(watched(), "watch #4 from 18");  // s2 stands first: its process should do it
  BOOST_TEST(first_of(after(200ms)) == "txn #5: cas @13 {s2} | grant s2 other @15 +1 next s3");
  done();
  leaves("s2");
  EXPECT(watched(), "watch #6 from 20", "txn #7: cas @19 {s3} | grant s3 us @17 +1");
  EXPECT(done(), "grant t1 A 21.0");
}

BOOST_FIXTURE_TEST_CASE(a_grantee_that_left_and_joined_again_meanwhile_stands_at_the_end, contested) {
  EXPECT(release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  leaves("s2");
  EXPECT(watched());  // the moment between
  others_join_again("s2");
  acquire(2);
  EXPECT(done(), "read #6");  // refused: it may be a copy, so nobody is granted before a read
  EXPECT(listed(), "watch #7 from 16", "released A", "grant t2 B 12.1");
  BOOST_TEST(record() == "{s1}");
}

BOOST_AUTO_TEST_CASE(a_go_contender_at_the_head_gets_its_chance_and_is_then_passed_over_for_good) {
  go_joins();
  look(1);
  EXPECT(created(), "txn #2: lock s2 | tree");
  EXPECT(done(), "watch #3 from 14");
  EXPECT(after(499ms));
  EXPECT(after(300ms), "note", "txn #4: cas @0 {s2} | grant s2 us @14 +1");
  EXPECT(done(), "grant t1 A 15.0");
  EXPECT(release('A'), "txn #5: cas @15 {} | remove s2 | tree");
  done();
  EXPECT(acquire(2), "txn #6: cas @16 {s2} | lock s2");  // no second wait for the same entry
}

BOOST_AUTO_TEST_CASE(each_go_contender_gets_its_own_chance) {
  go_joins();
  go_joins();
  hold();
  EXPECT(after(800ms), "note");
  EXPECT(after(800ms), "note", "txn #4: cas @0 {s3} | grant s3 us @16 +1");
}

BOOST_AUTO_TEST_CASE(a_go_contender_that_takes_its_slot_is_waited_for) {
  const std::string go = go_joins();
  hold();
  record_becomes(go);
  EXPECT(watched(), "watch #4 from 15");
  EXPECT(after(5s), "renew s2");
}

BOOST_AUTO_TEST_CASE(a_lock_delay_keeps_the_dead_in_the_record) {
  pool_story s(with(usual(), [](pool_options& o) { o.lock_delay = 3s; }));
  const std::string other = s.others_join();
  s.record_becomes(other);
  s.leaves(other);
  s.look(1);
  EXPECT(s.created(), "txn #2: lock s2 | tree");
  EXPECT(s.done(), "watch #3 from 14",
         "read #4");  // nobody else has an entry: perhaps the token may not read the others'
  s.listed();
  EXPECT(s.after(2900ms));
  EXPECT(s.after(200ms), "txn #5: cas @13 {s2} | grant s2 us @16 +1");
}

// --- Limits and other people's keys

BOOST_AUTO_TEST_CASE(another_limit_fails_with_both_numbers) {
  pool_story s(usual(2));
  s.record_becomes(s.others_join(), 3);
  s.acquire(1);
  s.acquire(2);
  EXPECT(s.listed(), "fail t1 the semaphore is in use with another limit",
         "fail t2 the semaphore is in use with another limit");
  BOOST_TEST((failed_with(s).details.limit_conflict == diagnostics::limits{3, 2}));
  BOOST_TEST(failed_with(s).details.key == "p/.lock");
  EXPECT(s.acquire(3), "read #2");
}

BOOST_AUTO_TEST_CASE(a_record_that_nobody_lives_by_is_taken_over_with_our_limit) {
  pool_story s(usual(2));
  s.record_becomes("s7 s8 s9", 3);
  s.look(1);
  EXPECT(s.created(), "txn #2: cas @11 {s1} | lock s1 | tree");
}

BOOST_AUTO_TEST_CASE(the_guides_record_is_written_back_as_it_was_found) {
  consul.put("p/.lock", R"({"Limit":1,"Holders":[]})", 0, now);
  look(1);
  EXPECT(created(), "txn #2: cas @11 {s1} as a list flags 0 | lock s1");
}

BOOST_AUTO_TEST_CASE(what_is_no_record_of_ours_is_not_touched) {
  const std::string foreign = "fail t1 the lock key belongs to something other than a semaphore";
  const std::string corrupt = "fail t1 the semaphore's record cannot be parsed";
  for (const bool single_look : {false, true}) {
    for (const bool is_foreign : {true, false}) {
      pool_story s;
      s.consul.put("p/.lock", is_foreign ? "anything" : "{", is_foreign ? 0x2ddccbc058a50c18 : semaphore_flags, s.now);
      EXPECT(single_look ? s.try_acquire(1) : s.acquire(1), "read #1");
      EXPECT(s.listed(), is_foreign ? foreign : corrupt);
      EXPECT(s.after(1min));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(joining_a_record_that_has_become_foreign_leaves_nothing, idle_session) {
  acquire(2);
  record_becomes(others_join());
  EXPECT(done(), "txn #5: lock s1 | tree");  // refused: what is known is old, so join and look
  consul.put("p/.lock", "x", 42, now);
  EXPECT(done(), "fail t2 the lock key belongs to something other than a semaphore", "destroy s1");
  destroyed();
  consul.remove("p/.lock", now);
  BOOST_TEST(entries() == "s2");
}

// --- Losses

BOOST_AUTO_TEST_CASE(removed_from_the_record_or_with_a_record_that_becomes_corrupt) {
  for (const bool is_corrupt : {false, true}) {
    watcher s;
    if (is_corrupt) {
      s.consul.put("p/.lock", "{", semaphore_flags, s.now);
      EXPECT(s.watched(), "lose A removed");
      EXPECT(s.after(1s));
    } else {
      s.record_becomes("");
      EXPECT(s.watched(), "lose A removed", "txn #4: remove s1 @12");  // it does not queue again
      EXPECT(s.done());
    }
    EXPECT(s.release('A'), "destroy s1");
  }
}

BOOST_FIXTURE_TEST_CASE(the_entry_is_gone_and_what_it_held_keeps_nobody_from_anything, watcher) {
  consul.destroy_session(real("s1"), now);
  EXPECT(watched(), "lose A session_invalidated", "destroy s1");
  EXPECT(destroyed());
  BOOST_TEST(pool().status().sessions == 0u);
  release('A');
  acquire(2);
  BOOST_TEST(says(run(), "grant t2"));
}

BOOST_FIXTURE_TEST_CASE(a_renewal_finds_no_session, watcher) {
  watched();
  EXPECT(after(6s), "renew s1");
  EXPECT(renewal_says_gone(), "read #5");  // which a new leader says of what it does not know yet
  EXPECT(listed());
  EXPECT(after(750ms), "renew s1");
  consul.destroy_session(real("s1"), now);
  EXPECT(renewal_says_gone(), "read #6");
  EXPECT(listed(), "lose A session_invalidated", "destroy s1");
}

/// After a failover the new leader may not know the sessions yet.
BOOST_AUTO_TEST_CASE(one_read_shows_what_has_become_of_many_sessions) {
  pool_story s(with(usual(100), [](pool_options& o) { o.watch_pause_each = 500us; }));
  for (std::uint64_t t = 1; t != 101; ++t) s.acquire(t);
  s.run();
  BOOST_REQUIRE(s.standing().record.holders.size() == 100u);
  s.after(3s);
  std::size_t answers = 0, reads = 0;
  for (const time_point end = s.now + 3s; s.now < end; s.after(5ms)) {
    for (; s.renewal_open(); ++answers) reads += times(s.renewal_says_gone(), "read #");
    if (s.read_open()) s.listed();
  }
  BOOST_TEST(answers > 200u);
  BOOST_TEST(reads > 10u);
  BOOST_TEST(reads <= 3'000u / 50 + 1);  // half a millisecond for each of 100
  BOOST_TEST(s.standing().record.holders.size() == 100u);
}

BOOST_AUTO_TEST_CASE(the_lease_runs_from_the_sending_of_the_request) {
  look(1);
  const time_point asked = now;
  after(2s);
  created();
  done();
  BOOST_TEST((granted_until(*this) == asked + 13500ms));
  EXPECT(after(10ms), "watch #3 from 1");
  watched();
  EXPECT(after(4s), "renew s1");
  now += 1s;
  EXPECT(renewed(), "update A");
  BOOST_TEST((granted_until(*this) < now + 13500ms - 900ms));
}

BOOST_FIXTURE_TEST_CASE(a_lease_that_is_not_renewed_ends_once_and_for_all, holder) {
  const time_point start = now;
  after(10ms);
  watched();
  EXPECT(after(6s), "renew s1");
  EXPECT(renewal_fails());
  EXPECT(after(750ms), "renew s1");  // soon again
  EXPECT(after(1250ms), "update A suspect");
  EXPECT(after(5485ms));
  BOOST_TEST((now < start + 13500ms));
  EXPECT(after(10ms), "lose A lease_expired");
  EXPECT(renewed());  // too late
  acquire(2);
  EXPECT(after(2s));  // as long as its user goes on, nobody else has it
  EXPECT(release('A'), "txn #5: cas @12 {} | remove s1 | tree");
  EXPECT(done(), "destroy s1", "create m2");
}

BOOST_FIXTURE_TEST_CASE(what_is_lost_and_never_let_go_is_given_up_when_consul_has_ended_its_session, holder) {
  acquire(2);
  after(10ms);
  watched();
  EXPECT(after(13500ms), "renew s1", "update A suspect", "lose A lease_expired");
  EXPECT(after(16480ms));
  EXPECT(after(20ms), "create m2", "destroy s1");
  EXPECT(release('A'));
}

BOOST_FIXTURE_TEST_CASE(a_renewal_that_comes_after_the_deadline_revives_nothing, watcher) {
  watched();
  after(6s);
  now += 8s;  // the process was paused: the reply is looked at before the clock
  EXPECT(renewed(), "lose A lease_expired");
}

BOOST_FIXTURE_TEST_CASE(a_failed_watch_loses_the_slot_without_grace_and_nobody_gets_it_while_nobody_watches, watcher) {
  acquire(2);
  EXPECT(watch_fails(), "note", "update A suspect", "lose A watch_failed");
  EXPECT(after(20ms), "watch #4 from 0");
  EXPECT(watched(), "note", "watch #5 from 12");
  EXPECT(release('A'), "txn #6: cas @12 {} | remove s1 | tree");  // what was lost is not used again
  EXPECT(done(), "destroy s1", "create m2");
}

BOOST_FIXTURE_TEST_CASE(a_listing_without_an_index_is_a_failed_watch, watcher) {
  EXPECT(watch_says(consul.list("p/"), 0), "note", "update A suspect", "lose A watch_failed");
  EXPECT(release('A'), "txn #4: cas @12 {} | remove s1 | tree");
  EXPECT(done(), "destroy s1");
}

BOOST_AUTO_TEST_CASE(a_failed_watch_is_ridden_out_with_grace) {
  watcher s(with(usual(), [](pool_options& o) { o.outage_grace = 10s; }));
  EXPECT(s.watch_fails(), "note", "update A suspect");
  EXPECT(s.after(20ms), "watch #4 from 0");
  EXPECT(s.watched(), "note", "update A", "watch #5 from 12");
}

BOOST_AUTO_TEST_CASE(a_watch_that_fails_for_longer_than_the_grace_loses_the_slot) {
  watcher s(with(usual(), [](pool_options& o) { o.outage_grace = 2s; }));
  s.watch_fails();
  BOOST_TEST(!says(s.after(1999ms), "lose"));
  BOOST_TEST(times(s.after(1ms), "lose A watch_failed") == 1u);
}

BOOST_AUTO_TEST_CASE(a_slot_of_two_sessions_is_lost_with_either_and_the_other_goes_back) {
  pool_story s(usual(2));
  s.hold(1, 2);
  s.after(10ms);
  s.consul.destroy_session(s.real("s1"), s.now);
  EXPECT(s.watched(), "lose A session_invalidated", "watch #4 from 14", "destroy s1");
  EXPECT(s.release('A'), "txn #5: cas @13 {} | remove s2 | tree");
}

BOOST_FIXTURE_TEST_CASE(only_a_listing_as_new_as_our_own_write_is_a_loss, idle_session) {
  acquire(2);
  done();  // granted at 14
  EXPECT(after(10ms), "watch #5 from 13");
  EXPECT(watch_says({}, 13), "lose B session_invalidated", "destroy s1");  // asked for later: newer
}

BOOST_FIXTURE_TEST_CASE(a_listing_that_a_newer_one_overtook_is_no_loss, idle_session) {
  acquire(2);
  done();
  after(10ms);  // watch #5
  EXPECT(release('B'), "txn #6: cas @14 {} | remove s1 | tree");
  acquire(3);
  EXPECT(done(), "released B", "txn #7: cas @15 {s1} | lock s1");
  EXPECT(done(), "grant t3 C 16.0");
  EXPECT(watch_says({}, 15));  // what #5 saw was before that
  EXPECT(after(5ms), "watch #8 from 0");
  EXPECT(watched(), "watch #9 from 16");
}

// --- Conflicts

BOOST_FIXTURE_TEST_CASE(a_refused_release_looks_again_and_tries_again, holder_of_one_of_two) {
  release('A');
  record_becomes("s1 " + others_join());
  EXPECT(done(), "read #4");
  EXPECT(listed(), "txn #5: cas @15 {s2} | remove s1 | tree");
  EXPECT(done(), "released A");
}

/// Something on the way repeats the request: the first has given the slot away, and the answer is the second's.
BOOST_FIXTURE_TEST_CASE(a_release_whose_copy_was_refused_serves_nobody_here, contested) {
  EXPECT(release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  acquire(2);
  apply_now();
  EXPECT(refused({{0, event::refusal::conflict}}), "read #6");
  EXPECT(listed(), "released A", "create m2", "destroy s1");
  BOOST_TEST(record() == "{s2}");
}

/// Nothing keeps the copy of a join from being applied after the release. The session lives, so the entry would stand
/// in the queue and be granted without a user.
BOOST_FIXTURE_TEST_CASE(a_copy_of_a_join_that_comes_late_is_taken_back, idle_session) {
  others_join_again("s1");
  EXPECT(after(6s), "renew s1");
  EXPECT(renewed(), "read #4");
  EXPECT(listed(), "watch #5 from 14", "txn #6: remove s1 @14");
}

BOOST_AUTO_TEST_CASE(one_look_a_renewal_serves_all_idle_sessions) {
  pool_story s(usual(2));
  s.hold(1, 2);
  s.release('A');
  s.done();
  s.after(6s);
  EXPECT(s.renewed(), "read #4");
  s.listed();
  EXPECT(s.renewed());
}

/// A frozen agent accepts the request, and says nothing.
BOOST_FIXTURE_TEST_CASE(an_acquire_gives_up_though_a_request_is_under_way, idle_session) {
  acquire(2);
  BOOST_TEST(txn_open());
  EXPECT(after(5s), "renew s1");
  EXPECT(after(500ms), "fail t2 no complete reply came before the deadline");
}

BOOST_AUTO_TEST_CASE(a_refused_acquire_joins_and_looks_in_one_request_also_when_the_record_has_gone) {
  for (const bool has_gone : {false, true}) {
    idle_session s;
    s.acquire(2);
    has_gone ? s.consul.remove("p/.lock", s.now) : s.record_becomes(s.others_join());
    EXPECT(s.done(), "txn #5: lock s1 | tree");
    if (!has_gone) EXPECT(s.done(), "watch #6 from 18");
    if (has_gone) EXPECT(s.done(), "watch #6 from 16", "txn #7: cas @0 {s1} | grant s1 us @16 +1");
    if (has_gone) EXPECT(s.done(), "grant t2 B 17.0");
  }
}

BOOST_FIXTURE_TEST_CASE(a_session_that_died_unnoticed_is_replaced, idle_session) {
  consul.destroy_session(real("s1"), now);
  acquire(2);
  EXPECT(done(), "create m2", "destroy s1");
}

BOOST_FIXTURE_TEST_CASE(a_release_that_stays_denied_ends_with_its_session, holder) {
  release('A');
  std::size_t tries = 0;
  lines all;
  for (const time_point end = now + 6s; now < end && pool().status().sessions != 0;) {
    if (txn_open()) ++tries, refused({{0, event::refusal::permission_denied}});
    if (read_open()) listed();
    if (watch_open()) watched();
    all = after(5ms);
  }
  BOOST_TEST(tries < 30u);
  EXPECT(all, "destroy s1");
  EXPECT(destroyed(), "released A");
}

BOOST_FIXTURE_TEST_CASE(a_release_of_a_session_that_cannot_be_destroyed_ends_with_the_lease, holder) {
  release('A');
  unknown();
  EXPECT(listed(), "note", "destroy s1");
  EXPECT(destroyed(false));
  lines all;
  for (const time_point end = now + 30s; now < end && !says(all, "released");) {
    all = after(50ms);
    if (!all.empty() && all.back() == "destroy s1") destroyed(false);
  }
  BOOST_TEST(times(all, "released A no complete reply came before the deadline") == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_nobody_wants_goes_with_its_session_if_no_write_is_allowed, queuer) {
  leaves("s1");
  others_grant("s2", "s2");
  cancel(1);
  for (const time_point end = now + 10s; now < end && pool().status().sessions != 0; after(50ms)) {
    if (txn_open()) refused({{0, event::refusal::permission_denied}});
    if (watch_open()) watched();
    answer_reads_and_sessions();
  }
  BOOST_TEST(pool().status().sessions == 0u);
}

BOOST_FIXTURE_TEST_CASE(sessions_that_cannot_be_created_fail_their_waiters_though_listings_come, holder_of_one_of_two) {
  after(20ms);
  std::string other;
  lines all = acquire(2);
  const time_point end = now + 10s;
  for (std::size_t answered = 0; now < end && !says(all, "fail");) {
    if (times(all, "create") > answered) ++answered, append(all, create_fails(error::server_error));
    append(all, after(50ms));
    // The state changes all the time, and the pool sees that.
    if (other.empty())
      other = go_joins();
    else
      leaves(std::exchange(other, {}));
    if (watch_open()) append(all, watched());
    while (renewal_open()) append(all, renewed());
  }
  BOOST_TEST(times(all, "fail") == 1u);
  BOOST_TEST((now <= end - 4s));
  BOOST_TEST(times(all, "create") < 30u);
}

BOOST_AUTO_TEST_CASE(an_acquire_answers_only_for_the_outage_in_its_own_time) {
  holder s(with(usual(2), [](pool_options& o) { o.outage_grace = 13s; }));
  s.after(20ms);
  for (const time_point end = s.now + 6s; s.now < end; s.after(50ms)) {
    if (s.watch_open()) s.watch_fails();
    while (s.renewal_open()) s.renewed();
  }
  EXPECT(s.acquire(2), "create m2");
}

BOOST_AUTO_TEST_CASE(a_session_that_could_not_be_had_and_is_not_needed_any_more_fails_nobody) {
  pool_story s(usual(2));
  const std::string other = s.others_join(), another = s.others_join();
  s.look(1, 2);
  s.created();
  s.create_fails();
  s.cancel(1);
  s.record_becomes(other + " " + another);
  s.acquire(2);
  check_that_nobody_fails(s);
}

BOOST_AUTO_TEST_CASE(a_join_whose_reply_was_lost_fails_nobody_later) {
  record_becomes(others_join());
  ask();
  applied_but_unknown();
  check_that_nobody_fails(*this);
}

// --- Unknown outcomes

BOOST_FIXTURE_TEST_CASE(an_unknown_take_that_was_applied_is_found_and_used, asker) {
  EXPECT(applied_but_unknown(), "read #3");
  EXPECT(listed(), "grant t1 A 12.0");
}

BOOST_FIXTURE_TEST_CASE(an_unknown_take_that_was_not_applied_costs_its_session, asker) {
  EXPECT(unknown(), "read #3");
  EXPECT(listed(), "note", "destroy s1");
  EXPECT(after(50ms), "create m2");
  destroyed();
  EXPECT(created(), "txn #4: cas @0 {s2} | lock s2");
  BOOST_TEST(!applied_late());
  EXPECT(done(), "grant t1 A 15.0");
}

BOOST_AUTO_TEST_CASE(an_unknown_take_of_a_record_that_has_moved_on_keeps_its_session) {
  record_becomes("");
  ask();
  unknown();
  record_becomes(others_join());
  EXPECT(listed());
  EXPECT(after(50ms), "txn #4: lock s1 | tree");
  BOOST_TEST(!applied_late());
}

BOOST_FIXTURE_TEST_CASE(an_unknown_take_without_a_record_costs_its_session_because_a_record_may_come_and_go, asker) {
  unknown();
  record_becomes(others_join());
  EXPECT(listed(), "note", "destroy s1");
  destroyed();
  consul.remove("p/.lock", now);
  BOOST_TEST(!applied_late());
}

BOOST_AUTO_TEST_CASE(an_unknown_join_or_leave_is_looked_up_and_costs_the_session_if_it_was_not_applied) {
  for (const bool joins : {true, false}) {
    for (const bool was_applied : {true, false}) {
      pool_story s;
      s.record_becomes(s.others_join());
      s.look(1);
      EXPECT(s.created(), "txn #2: lock s2 | tree");
      if (!joins) s.done();
      if (!joins) s.cancel(1);
      EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), joins ? "read #3" : "read #5");
      const lines seen = s.listed();
      if (was_applied) {
        if (joins)
          EXPECT(seen, "watch #4 from 15");
        else
          EXPECT(seen);
        BOOST_TEST(s.entries() == (joins ? "s1 s2" : "s1"));
        continue;
      }
      EXPECT(seen, "note", "destroy s2");
      s.destroyed();
      if (joins) BOOST_TEST(!s.applied_late());
      BOOST_TEST(s.entries() == "s1");
    }
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_release_is_looked_up_and_ends_with_its_session_if_it_was_not_applied) {
  for (const bool was_applied : {true, false}) {
    holder s;
    s.release('A');
    EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), "read #4");
    if (was_applied) {
      EXPECT(s.listed(), "released A");
      EXPECT(s.after(20ms));
      EXPECT(s.acquire(2), "txn #5: cas @13 {s1} | lock s1");
      continue;
    }
    EXPECT(s.listed(), "note", "destroy s1");
    EXPECT(s.destroyed(), "released A");
    BOOST_TEST(s.entries() == "");
    BOOST_TEST(s.applied_late());  // it may: nobody uses that session any more
    BOOST_TEST(s.record() == "{}");
  }
}

BOOST_FIXTURE_TEST_CASE(an_unknown_release_of_a_record_that_has_moved_on_is_tried_again_and_its_token_still_grows,
                        holder_of_one_of_two) {
  release('A');
  unknown();
  record_becomes("s1 " + others_join());
  acquire(2);
  EXPECT(listed(), "released A", "grant t2 B 12.1");
  BOOST_TEST(!applied_late());
}

BOOST_AUTO_TEST_CASE(an_unknown_requeue) {
  for (const bool was_applied : {true, false}) {
    contested s;
    s.acquire(2);
    s.after(100ms);
    EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1 | lock s1");
    EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), "read #6");
    if (was_applied) {
      EXPECT(s.listed(), "released A");
      BOOST_TEST(s.entries() == "s2 s1");
    } else {
      EXPECT(s.listed(), "note", "destroy s1");
      EXPECT(s.destroyed(), "released A");
      BOOST_TEST(s.entries() == "s2");
      BOOST_TEST(!s.applied_late());
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_listing_asked_for_before_the_outcome_was_unknown_decides_nothing, queuer) {
  cancel(1);
  EXPECT(unknown(), "read #5");
  others_join();
  EXPECT(watched());
  EXPECT(listed(), "note", "destroy s2");
}

BOOST_FIXTURE_TEST_CASE(a_write_that_was_not_sent_is_tried_again_with_the_same_session, asker) {
  EXPECT(not_sent());
  EXPECT(after(20ms), "txn #3: cas @0 {s1} | lock s1");
  EXPECT(done(), "grant t1 A 12.0");
}

// --- Outages

BOOST_AUTO_TEST_CASE(those_who_wait_in_an_outage_fail_after_a_while_with_the_last_error) {
  acquire(1);
  std::size_t tries = 0;
  for (const time_point end = now + 4990ms; now < end && pool().status().waiting != 0; after(10ms))
    if (read_open()) ++tries, read_fails(error::server_error);
  BOOST_TEST(pool().status().waiting == 1u);
  BOOST_TEST(tries > 5u);
  BOOST_TEST(tries < 40u);
  after(10ms);
  BOOST_TEST(pool().status().waiting == 0u);
  BOOST_TEST((failed_with(*this).code == error::server_error));
  EXPECT(after(1min));
}

namespace {

// For this time, or until nobody waits, no request succeeds. Returns for how long somebody waited.
protocol::duration wait_without_consul(pool_story& s, protocol::duration time) {
  const auto begun = s.now;
  while (s.now < begun + time && s.pool().status().waiting != 0) {
    if (s.watch_open()) s.watch_fails();
    while (s.key_watch_open()) s.key_watch_fails();
    if (s.read_open()) s.read_fails(error::server_error);
    if (s.txn_open()) s.not_sent();
    if (s.renewal_open()) s.renewal_fails();
    if (s.create_open()) s.create_fails();
    s.after(10ms);
  }
  return s.now - begun;
}

}  // namespace

/// An election of Consul's leader is such an outage.
BOOST_FIXTURE_TEST_CASE(a_place_in_the_queue_is_kept_through_an_outage, queuer) {
  wait_without_consul(*this, 8s);
  BOOST_TEST(pool().status().waiting == 1u);
  while (answer_all()) {
  }
  check_that_nobody_fails(*this);
}

BOOST_FIXTURE_TEST_CASE(a_grant_during_an_outage_is_taken_when_that_is_over, queuer) {
  wait_without_consul(*this, 8s);
  others_grant("s2", "s2");
  for (const time_point end = now + 3s; now < end && pool().status().waiting != 0; after(50ms)) {
    if (watch_open()) watched();
    if (read_open()) listed();
  }
  BOOST_TEST(pool().status().waiting == 0u);
  BOOST_TEST((slot('A') != protocol::slot_id::none));
}

/// Only renewals are answered, so the entry may have been deleted.
BOOST_FIXTURE_TEST_CASE(a_place_that_no_answer_shows_is_not_believed_for_ever, queuer) {
  const auto begun = now;
  while (now < begun + 2min && pool().status().waiting != 0) {
    if (watch_open()) watch_fails();
    if (read_open()) read_fails(error::server_error);
    if (txn_open()) not_sent();
    if (renewal_open()) renewed();
    if (create_open()) create_fails();
    after(50ms);
  }
  BOOST_TEST((now - begun > 15s));
  BOOST_TEST((now - begun < 45s));
}

BOOST_FIXTURE_TEST_CASE(a_place_in_the_queue_is_kept_until_its_lease_is_over, queuer) {
  const auto waited = wait_without_consul(*this, 1min);
  BOOST_TEST(pool().status().waiting == 0u);
  BOOST_TEST((waited > 8s));
  BOOST_TEST((waited <= 15s));
}

/// The outage begins 1.5 s before the lease is over, so `give_up_after` is not over then.
BOOST_FIXTURE_TEST_CASE(a_waiter_that_has_lost_its_place_asks_anew, queuer) {
  for (const time_point end = now + 12s; now < end; after(50ms)) {
    if (renewal_open()) renewal_fails();
    if (read_open()) listed();
    if (txn_open()) done();
  }
  const auto waited = wait_without_consul(*this, 1min);
  BOOST_TEST((waited >= 5s));
  BOOST_TEST((waited <= 7s));
  BOOST_TEST(pool().status().waiting == 0u);
}

BOOST_AUTO_TEST_CASE(writes_that_fail_while_reads_work_fail_those_who_wait_too) {
  acquire(1);
  std::size_t writes = 0;
  for (const time_point end = now + 6s; now < end && pool().status().waiting != 0; after(10ms)) {
    answer_reads_and_sessions();
    if (txn_open()) ++writes, unknown(error::server_error);
    if (read_open()) listed();
  }
  BOOST_TEST(pool().status().waiting == 0u);
  BOOST_TEST(writes < 40u);
}

/// A contender that the listing leaves out would be taken for dead.
BOOST_AUTO_TEST_CASE(a_listing_without_what_the_token_may_not_read_is_none) {
  acquire(1);
  EXPECT(read_filtered(), "fail t1 the ACL token is missing, unknown or lacks the right");
  BOOST_TEST(failed_with(*this).details.message == "the ACL token may not read all keys below the prefix");
}

BOOST_AUTO_TEST_CASE(one_that_is_for_a_single_acquire_ends_with_it) {
  holder s(with(usual(), [](pool_options& o) { o.single = true; }));
  s.release('A');
  check_nothing_is_left(s);
  BOOST_TEST(s.pool().status().sessions == 0u);
}

BOOST_AUTO_TEST_CASE(final_errors_fail_at_once_and_nothing_turns_in_circles) {
  const std::string denied = "fail t1 the ACL token is missing, unknown or lacks the right";
  enum step { look, session, write, answer };
  for (const step at : {look, session, write, answer}) {
    pool_story s;
    s.acquire(1);
    if (at != look) s.listed();
    if (at == write || at == answer) s.created();
    if (at == look) EXPECT(s.read_fails(error::permission_denied), denied);
    if (at == session)
      EXPECT(s.create_fails(error::invalid_ttl), "fail t1 the session TTL is out of the accepted range");
    if (at == write) EXPECT(s.not_sent(error::too_large), "fail t1 the request is over one of Consul's size limits");
    if (at == answer)
      EXPECT(s.refused({{0, event::refusal::permission_denied}, {1, event::refusal::permission_denied}}), denied);
    EXPECT(s.after(1s));
  }
}

BOOST_FIXTURE_TEST_CASE(a_look_that_fails_for_good_is_not_repeated_in_a_circle, holder) {
  release('A');
  consul.put("p/.lock", R"({"Holders":{")" + real("s1") + R"(":true},"Limit":1})", semaphore_flags, now);
  EXPECT(done(), "read #4");
  EXPECT(read_fails(error::permission_denied));
  std::size_t tries = 0;
  for (int i = 0; i < 100; ++i) {
    after(10ms);
    if (read_open()) ++tries, read_fails(error::permission_denied);
  }
  BOOST_TEST(tries > 1u);
  BOOST_TEST(tries < 20u);
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_created_is_tried_again) {
  look(1);
  EXPECT(create_fails());
  EXPECT(after(20ms), "create m2");
  created();
  EXPECT(done(), "grant t1 A 12.0");
}

// --- Watches and sessions

BOOST_FIXTURE_TEST_CASE(a_short_hold_gets_no_watch_and_an_index_that_goes_backwards_is_followed, holder) {
  EXPECT(after(4ms));
  EXPECT(after(1ms), "watch #3 from 1");
  EXPECT(watched(), "watch #4 from 12");
  EXPECT(watch_says(consul.list("p/"), 5), "watch #5 from 5");
}

BOOST_FIXTURE_TEST_CASE(a_session_that_nobody_needs_is_kept_for_a_while_and_then_ended, idle_session) {
  for (int i = 0; i < 59; ++i) {
    after(1s);
    if (renewal_open()) renewed();
  }
  BOOST_TEST(pool().status().sessions == 1u);
  BOOST_TEST(last_of(after(2s)) == "renew s1");  // so that it is certain that its node stands
  EXPECT(renewed(), "destroy s1");
  EXPECT(destroyed(false));  // nobody knows
  EXPECT(after(50ms), "destroy s1");
  EXPECT(destroyed());
  EXPECT(after(1h));
}

/// The shell keeps something for each session until then.
BOOST_FIXTURE_TEST_CASE(a_session_whose_end_is_never_confirmed_is_forgotten_after_its_ttl, idle_session) {
  lines all;
  for (const time_point end = now + 5min; now < end; append(all, after(1s))) {
    if (renewal_open()) append(all, renewed());
    if (!all.empty() && all.back() == "destroy s1") append(all, destroyed(false));
  }
  BOOST_TEST(times(all, "forget s1") == 1u);
  BOOST_TEST(last_of(all) == "forget s1");
}

/// Until the session is destroyed, a client with its fence checks could write, though another holds the slot.
BOOST_FIXTURE_TEST_CASE(a_session_that_must_end_leaves_the_record_with_its_entry, holder) {
  acquire(2);
  EXPECT(jump(1h), "lose A lease_expired", "create m2", "destroy s1");  // which Consul had ended by then
  EXPECT(created(), "txn #3: cas @12 {s2} | remove s1 | lock s2");
  EXPECT(done(), "grant t2 B 14.0");
  BOOST_TEST(entries() == "s2");
}

/// One read may show both the deletion and the record. Or two reads would show them, but the second never comes.
BOOST_FIXTURE_TEST_CASE(a_session_whose_entry_was_deleted_beside_a_write_is_not_used_again, holder_of_one_of_two) {
  const std::string other = others_join();
  after(10ms);
  release('A');
  acquire(2);
  leaves("s1");
  record_becomes("s1 " + other);
  EXPECT(watched());
  EXPECT(done(), "released A", "create m2", "destroy s1");
}

BOOST_FIXTURE_TEST_CASE(nor_is_it_if_the_write_is_refused_before_the_record_is_seen, holder_of_one_of_two) {
  const std::string other = others_join();
  after(10ms);
  release('A');
  leaves("s1");
  EXPECT(watched());
  record_becomes("s1 " + other);
  EXPECT(done(), "released A", "destroy s1");
  EXPECT(acquire(2), "create m2");
  EXPECT(destroyed());
  EXPECT(created(), "txn #5: lock s3 | tree");
  // The owner of s1 is known, so nobody waits for its lease.
  EXPECT(done(), "watch #6 from 20", "txn #7: cas @16 {s2 s3} | grant s3 us @20 +1");
}

// --- Close

BOOST_FIXTURE_TEST_CASE(close_takes_the_slots_back, holder) {
  acquire(2);
  EXPECT(close(true), "fail t2 the semaphore or client was closed", "lose A closed");
  EXPECT(release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(done(), "destroy s1");
  EXPECT(destroyed(), "closed");
  EXPECT(acquire(3), "fail t3 the semaphore or client was closed");
  EXPECT(close(true));
  BOOST_TEST((pool().wake() == never));
}

BOOST_FIXTURE_TEST_CASE(close_waits_for_those_who_do_not_let_go_so_long_and_no_longer, holder) {
  EXPECT(close(true), "lose A closed");
  BOOST_TEST(last_of(after(5s)) == "txn #4: cas @12 {} | remove s1 | tree");
  EXPECT(done(), "destroy s1");
  EXPECT(destroyed(), "closed");
  EXPECT(release('A'));
}

BOOST_FIXTURE_TEST_CASE(close_without_revoke_waits_for_the_releases, holder) {
  EXPECT(close(false));
  EXPECT(acquire(2), "fail t2 the semaphore or client was closed");
  after(1s);
  EXPECT(release('A'), "txn #4: cas @12 {} | remove s1 | tree");
  done();
  EXPECT(destroyed(), "closed");
}

BOOST_FIXTURE_TEST_CASE(close_ends_in_an_outage_too, holder) {
  close(false);
  release('A');
  const lines all = after(5s);
  BOOST_TEST(last_of(all) == "closed no complete reply came before the deadline");
  BOOST_TEST(times(all, "released A no complete reply came before the deadline") == 1u);
}

namespace {

/// The pool closes and the slot is released, but others are faster than each of its writes.
lines close_and_always_lose(holder_of_one_of_two& story, bool lose_slots) {
  const std::string other = story.others_join();
  bool theirs = false;
  lines all = story.close(lose_slots);
  append(all, story.release('A'));
  for (const time_point end = story.now + 4s; story.now < end; append(all, story.after(10ms))) {
    theirs = !theirs;
    story.record_becomes(theirs ? "s1 " + other : "s1");
    if (story.txn_open()) append(all, story.done());
    append(all, story.run(false));
  }
  return all;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(close_ends_the_session_if_others_are_faster_than_every_write_of_a_release,
                        holder_of_one_of_two) {
  const lines all = close_and_always_lose(*this, false);
  BOOST_TEST(last_of(all) == "closed");
  BOOST_TEST(times(all, "released A") == 1u);
}

BOOST_FIXTURE_TEST_CASE(close_ends_the_session_of_a_lost_slot_in_time_too, holder_of_one_of_two) {
  const lines all = close_and_always_lose(*this, true);
  BOOST_TEST(last_of(all) == "closed");
}

BOOST_FIXTURE_TEST_CASE(close_leaves_no_slot_free_that_somebody_waits_for, holder) {
  close(true);
  EXPECT(release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  others_join();  // before that arrives
  EXPECT(applied_but_unknown(), "read #4");
  EXPECT(listed(), "destroy s1");
  EXPECT(destroyed());
  EXPECT(after(50ms), "txn #5: cas @15 {s2} | grant s2 other @14 +1");
  EXPECT(done(), "closed");
}

BOOST_AUTO_TEST_CASE(close_is_done_at_once_but_for_a_session_that_is_created) {
  pool_story unused;
  EXPECT(unused.close(true), "closed");
  EXPECT(unused.close(true));
  look(1);
  EXPECT(close(true), "fail t1 the semaphore or client was closed");
  EXPECT(created(), "destroy s1");
  EXPECT(destroyed(), "closed");
}

/// The answer to the create request comes after the time for closing is over.
BOOST_AUTO_TEST_CASE(a_session_that_is_created_too_late_is_destroyed) {
  look(1);
  close(true);
  const lines all = after(10s);
  BOOST_TEST(says(all, "closed"));
  EXPECT(created(), "destroy s1");
}

// --- All in all

BOOST_AUTO_TEST_CASE(the_same_events_give_the_same_actions) {
  const auto run = [](std::uint64_t seed) {
    pool_story s(usual(), seed);
    s.hold();
    lines all = s.after(7s);
    const time_point until = granted_until(s);
    all.push_back(std::to_string(until.time_since_epoch().count() + s.pool().wake().time_since_epoch().count()));
    return all;
  };
  BOOST_TEST(run(7) == run(7), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(cancelled_waiters_take_no_room) {
  waiter_queue queue;
  queue.push({ticket{1}});
  for (std::uint64_t t = 2; t != 100'000; ++t) {
    queue.push({ticket{t}, 1, t % 2 == 0});
    BOOST_REQUIRE(queue.remove(ticket{t}));
  }
  BOOST_TEST(queue.size() == 1u);
  BOOST_TEST(queue.patient() == 1u);
  BOOST_TEST(queue.room() < 200u);
}

BOOST_AUTO_TEST_SUITE_END()

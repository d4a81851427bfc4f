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

/// Holds slot A with s1.
struct holder : pool_story {
  explicit holder(pool_options o = usual()) : pool_story(std::move(o)) { hold(); }
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
      EXPECT(s.read_filtered(), "fail t1 the ACL token or the user is missing, unknown or lacks the right");
    else
      EXPECT(s.listed(), "txn #5: cas @13 {s2} | grant s2 us @16 +1");
  }
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

BOOST_FIXTURE_TEST_CASE(a_look_denies_at_once_and_a_deadline_whoever_still_waits, holder) {
  EXPECT(try_acquire(4), "deny t4");  // it asks nobody: all slots are in use here
  EXPECT(acquire_until(2, now + 30ms));
  EXPECT(acquire(3));
  BOOST_TEST(times(after(50ms), "deny t2") == 1u);
  EXPECT(release('A'), "released A", "grant t3 B 12.1");
}

BOOST_FIXTURE_TEST_CASE(an_acquire_that_overtakes_a_late_tick_is_one, holder) {
  EXPECT(acquire_until(2, now + 30ms));
  now += 30ms;
  EXPECT(acquire(3), "deny t2", "watch #3 from 1");
}

BOOST_FIXTURE_TEST_CASE(a_deadline_behind_one_who_waits_without_end_passes_in_its_time, watcher) {
  EXPECT(acquire(2));
  EXPECT(acquire_until(3, now + 30ms));
  BOOST_TEST(times(after(30ms), "deny t3") == 1u);
}

// --- A deadline, and whether Consul has answered until then

BOOST_FIXTURE_TEST_CASE(a_deadline_before_any_answer_is_an_outage, pool_story) {
  EXPECT(acquire_until(1, now + 1s), "read #1");
  EXPECT(after(1s), "fail t1 no complete reply came before the deadline");
  BOOST_TEST(failed_with(*this).code == error::timed_out);
}

BOOST_FIXTURE_TEST_CASE(a_deadline_after_failures_is_an_outage, pool_story) {
  acquire_until(1, now + 1s);
  lines all;
  for (int i = 0; i < 20 && !says(all, "fail"); ++i) {
    if (read_open()) append(all, read_fails(error::unreachable));
    append(all, after(100ms));
  }
  BOOST_TEST(last_of(all) == "fail t1 no connection to the server could be made");
}

BOOST_FIXTURE_TEST_CASE(a_deadline_while_others_hold_the_slot_is_contention, pool_story) {
  others_join();
  record_becomes("s1", 1);
  acquire_until(1, now + 10s);
  answer_all();
  answer_all();
  BOOST_TEST(entries() == "s1 s2");
  after(8s);
  EXPECT(after(1s), "read #4 record");  // nothing was heard lately
  EXPECT(key_watched());
  BOOST_TEST(times(after(1s), "deny t1") == 1u);
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
  const std::string foreign = "fail t1 the key or queue belongs to something other than a semaphore";
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
  EXPECT(done(), "fail t2 the key or queue belongs to something other than a semaphore", "destroy s1");
  destroyed();
  consul.remove("p/.lock", now);
  BOOST_TEST(entries() == "s2");
}

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

// --- Losses

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

// --- Conflicts

// --- Outages

/// A contender that the listing leaves out would be taken for dead.
BOOST_AUTO_TEST_CASE(a_listing_without_what_the_token_may_not_read_is_none) {
  acquire(1);
  EXPECT(read_filtered(), "fail t1 the ACL token or the user is missing, unknown or lacks the right");
  BOOST_TEST(failed_with(*this).details.message == "the ACL token may not read all keys below the prefix");
}

BOOST_AUTO_TEST_CASE(one_that_is_for_a_single_acquire_ends_with_it) {
  holder s(with(usual(), [](pool_options& o) { o.single = true; }));
  s.release('A');
  check_nothing_is_left(s);
  BOOST_TEST(s.pool().status().sessions == 0u);
}

BOOST_AUTO_TEST_CASE(final_errors_fail_at_once_and_nothing_turns_in_circles) {
  const std::string denied = "fail t1 the ACL token or the user is missing, unknown or lacks the right";
  enum step { look, session, write, answer };
  for (const step at : {look, session, write, answer}) {
    pool_story s;
    s.acquire(1);
    if (at != look) s.listed();
    if (at == write || at == answer) s.created();
    if (at == look) EXPECT(s.read_fails(error::permission_denied), denied);
    if (at == session)
      EXPECT(s.create_fails(error::invalid_ttl), "fail t1 the session TTL or the lease is out of the accepted range");
    if (at == write) EXPECT(s.not_sent(error::too_large), "fail t1 the request is over a size limit of the server");
    if (at == answer)
      EXPECT(s.refused({{0, event::refusal::permission_denied}, {1, event::refusal::permission_denied}}), denied);
    EXPECT(s.after(1s));
  }
}

// --- Watches and sessions

BOOST_FIXTURE_TEST_CASE(a_short_hold_gets_no_watch_and_an_index_that_goes_backwards_is_followed, holder) {
  EXPECT(after(4ms));
  EXPECT(after(1ms), "watch #3 from 1");
  EXPECT(watched(), "watch #4 from 12");
  EXPECT(watch_says(consul.list("p/"), 5), "watch #5 from 5");
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

BOOST_AUTO_TEST_CASE(cancelled_waiters_take_no_room) {
  waiter_queue queue;
  queue.push({ticket{1}});
  for (std::uint64_t t = 2; t != 100'000; ++t) {
    queue.push({ticket{t}, {.once = t % 2 == 0}});
    BOOST_REQUIRE(queue.remove(ticket{t}));
  }
  BOOST_TEST(queue.size() == 1u);
  BOOST_TEST(queue.patient() == 1u);
  BOOST_TEST(queue.room() < 200u);
}

BOOST_AUTO_TEST_SUITE_END()

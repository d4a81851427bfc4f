#include "protocol/pool.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "support/pool_story.hpp"

// The machine, told step by step what happens: see pool_story.hpp for how its answers read.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using lines = pool_story::lines;

pool_options with(std::uint32_t limit, void (*change)(pool_options&)) {
  pool_options o = pool_story::usual(limit);
  change(o);
  return o;
}

/// What the pool said of a slot's lease, last.
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

/// Whatever the pool still wants is answered well, until it wants nothing: then nothing of it may be left.
void check_nothing_is_left(pool_story& s) {
  for (int i = 0; i < 20 && s.answer_all(); ++i) s.after(100ms);
  BOOST_TEST(s.entries() == "");
  BOOST_TEST((s.record() == "{}" || s.record() == "none"), s.record());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool)

// --- What it costs

BOOST_AUTO_TEST_CASE(the_first_acquire_looks_creates_a_session_and_takes_the_slot_in_one_write) {
  pool_story s;
  EXPECT(s.acquire(1), "read #1");
  EXPECT(s.listed(), "create m1");
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1");
  EXPECT(s.done(), "grant t1 A 12.0");
  BOOST_TEST(s.record() == "{s1}");
}

BOOST_AUTO_TEST_CASE(a_warm_acquire_and_its_release_are_one_write_each) {
  pool_story s;
  s.hold();
  EXPECT(s.release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "released A");
  s.after(1s);
  const std::size_t before = s.requests;
  EXPECT(s.acquire(2), "txn #4: cas @13 {s1} | lock s1");
  EXPECT(s.done(), "grant t2 B 14.0");
  EXPECT(s.release('B'), "txn #5: cas @14 {} | remove s1 | tree");
  EXPECT(s.done(), "released B");
  BOOST_TEST(s.requests - before == 2u);
}

BOOST_AUTO_TEST_CASE(a_release_hands_the_slot_to_the_next_local_waiter_in_order_without_a_request) {
  pool_story s;
  s.hold();
  for (std::uint64_t t = 2; t <= 4; ++t) EXPECT(s.acquire(t));
  EXPECT(s.release('A'), "released A", "grant t2 B 12.1");
  EXPECT(s.release('B'), "released B", "grant t3 C 12.2");
  EXPECT(s.release('C'), "released C", "grant t4 D 12.3");
}

BOOST_AUTO_TEST_CASE(ten_thousand_waiters_cost_nothing_while_all_slots_are_in_use) {
  pool_story s(pool_story::usual(4));
  s.acquire(1, 4);
  s.listed();
  for (int i = 0; i < 4; ++i) s.created();
  s.done();
  const std::size_t before = s.requests;
  for (std::uint64_t t = 2; t != 10'002; ++t) s.acquire(t);
  core_actions out;
  const auto release = [&](slot_id slot) { s.pool().step(event::release{slot}, s.now, out); };
  release(s.slot('A'));
  std::uint64_t next = 2;
  for (std::size_t i = 0; i != out.size(); ++i) {
    const auto* grant = std::get_if<action::grant>(&out[i]);
    if (!grant) continue;
    BOOST_REQUIRE(grant->ticket == ticket{next++});
    const slot_id slot = grant->slot;
    if (next <= 10'001 || s.pool().status().waiting != 0) release(slot);
  }
  BOOST_TEST(next == 10'002u);
  BOOST_TEST(s.requests == before);
  BOOST_TEST(s.pool().status().sessions == 4u);
}

// --- Wide requests

BOOST_AUTO_TEST_CASE(n_slots_are_taken_in_one_write_and_given_back_in_one) {
  pool_story s(pool_story::usual(3));
  EXPECT(s.acquire(1, 2), "read #1");
  EXPECT(s.listed(), "create m1", "create m2");
  EXPECT(s.created());
  EXPECT(s.created(), "txn #2: cas @0 {s1 s2} | lock s1 | lock s2");
  EXPECT(s.done(), "grant t1 A 13.0");
  EXPECT(s.release('A'), "txn #3: cas @13 {} | remove s1 | remove s2");
  EXPECT(s.done(), "released A");
}

BOOST_AUTO_TEST_CASE(a_wide_request_is_all_or_nothing_and_is_not_overtaken) {
  pool_story s(pool_story::usual(2));
  s.hold();
  EXPECT(s.acquire(2, 2));
  EXPECT(s.acquire(3));
  EXPECT(s.try_acquire(4), "deny t4");
  EXPECT(s.release('A'), "released A", "create m2");
  EXPECT(s.created(), "txn #3: cas @12 {s1 s2} | lock s2");
  EXPECT(s.done(), "grant t2 B 14.0");
  EXPECT(s.release('B'), "grant t3 C 12.2", "txn #4: cas @14 {s1} | remove s2 | tree");
}

BOOST_AUTO_TEST_CASE(more_slots_than_there_are_fail_at_once) {
  pool_story s(pool_story::usual(2));
  EXPECT(s.acquire(1, 3), "fail t1 the number of slots is 0 or over the limit");
  EXPECT(s.acquire(2, 0), "fail t2 the number of slots is 0 or over the limit");
  BOOST_TEST(s.requests == 0u);
}

BOOST_AUTO_TEST_CASE(the_local_queue_has_an_end) {
  pool_story s(with(1, [](pool_options& o) { o.waiters_max = 2; }));
  s.acquire(1);
  s.acquire(2);
  EXPECT(s.acquire(3), "fail t3 the local queue is full");
  EXPECT(s.cancel(2), "fail t2 Operation canceled");
  EXPECT(s.acquire(4));
}

BOOST_AUTO_TEST_CASE(of_two_wide_requests_who_does_not_stand_first_gives_its_part_back) {
  pool_story s(pool_story::usual(2));
  s.others_join();
  s.others_join();  // theirs stand first
  s.record_becomes("");
  s.acquire(1, 2);
  s.listed();
  s.created();
  EXPECT(s.created(), "txn #2: lock s3 | lock s4 | tree");
  EXPECT(s.done(), "watch #3 from 18");
  s.others_grant("s1 s3", "s1 s3");  // an unfair grant: half for each
  EXPECT(s.watched(), "watch #4 from 19",
         "txn #5: cas @19 {s1 s2} | grant s2 other @14 +1 | remove s3 | lock s3 | remove s4 | lock s4");
}

BOOST_AUTO_TEST_CASE(a_part_is_kept_while_only_those_stand_before_it_whose_slots_are_free) {
  pool_story s(pool_story::usual(3));
  s.go_joins();
  s.acquire(1, 3);
  s.listed();
  for (int i = 0; i < 3; ++i) s.created();
  s.run();
  BOOST_TEST(s.record() == "{s2 s3}");
  const std::size_t before = s.requests;
  s.after(499ms);
  s.run();
  BOOST_TEST(s.requests == before);
  s.after(300ms);
  s.run();
  BOOST_TEST(s.record() == "{s2 s3 s4}");
}

BOOST_AUTO_TEST_CASE(what_a_write_found_is_known_when_a_listing_has_shown_it_before_the_reply) {
  pool_story s(pool_story::usual(2));
  s.hold();
  s.after(20ms);
  const std::string go = s.go_joins(), another = s.go_joins();
  s.watched();
  s.acquire(2);
  s.after(100ms);
  EXPECT(s.release('A'), "txn #5: cas @12 {} | remove s1 | lock s1");
  s.leaves(go);
  s.leaves(another);
  s.apply_now();
  s.watched();
  EXPECT(s.done(), "released A", "watch #6 from 19", "txn #7: cas @19 {s1} | grant s1 us @19 +1");
}

BOOST_AUTO_TEST_CASE(who_stands_behind_a_look_that_was_told_no_has_the_slot_at_once) {
  pool_story s(pool_story::usual(3));
  s.hold();
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

BOOST_AUTO_TEST_CASE(a_single_look_takes_a_free_slot) {
  pool_story s;
  EXPECT(s.try_acquire(1), "read #1");
  EXPECT(s.listed(), "create m1");
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1");
  EXPECT(s.done(), "grant t1 A 12.0");
}

BOOST_AUTO_TEST_CASE(a_single_look_at_a_full_semaphore_is_denied_by_that_look) {
  pool_story s;
  const std::string other = s.others_join();
  s.record_becomes(other);
  EXPECT(s.try_acquire(1), "read #1");
  EXPECT(s.listed(), "deny t1");
  EXPECT(s.try_acquire(2), "read #2");  // what was seen before is no look for this one
  s.record_becomes("");
  s.leaves(other);
  EXPECT(s.listed(), "create m1");
}

BOOST_AUTO_TEST_CASE(a_single_look_does_not_overtake_others_who_wait) {
  pool_story s;
  s.others_join();
  EXPECT(s.try_acquire(1), "read #1");
  EXPECT(s.listed(), "deny t1");
}

BOOST_AUTO_TEST_CASE(a_single_look_does_not_get_stuck_behind_one_who_waits) {
  pool_story s;
  EXPECT(s.try_acquire(1), "read #1");
  EXPECT(s.acquire(2));
  EXPECT(s.try_acquire(3), "deny t3");
  s.record_becomes(s.others_join());
  EXPECT(s.listed(), "deny t1", "create m1");
}

BOOST_AUTO_TEST_CASE(a_single_look_that_others_beat_three_times_is_denied) {
  pool_story s;
  s.try_acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1");
  for (int i = 0; i < 3; ++i) {
    s.record_becomes("", 1);
    s.consul.put("p/.lock", i % 2 ? R"({"Limit":1,"Holders":{}})" : R"({"Holders":{},"Limit":1})", semaphore_flags,
                 s.now);
    lines answer = s.done();
    for (std::string& each : s.after(100ms)) answer.push_back(each);
    if (i < 2) {
      BOOST_REQUIRE(answer.size() == 1u);
      BOOST_TEST(answer.front().substr(0, 4) == "read");
      answer = s.listed();
      BOOST_REQUIRE(answer.size() == 1u);
      BOOST_TEST(answer.front().substr(0, 3) == "txn");
    } else {
      answer = s.listed();
      EXPECT(answer, "deny t1");
    }
  }
  check_nothing_is_left(s);
}

BOOST_AUTO_TEST_CASE(a_deadline_denies_whoever_still_waits) {
  pool_story s;
  s.hold();
  EXPECT(s.acquire_until(2, s.now + 30ms));
  EXPECT(s.acquire(3));
  const lines all = s.after(50ms);
  BOOST_TEST(std::count(all.begin(), all.end(), "deny t2") == 1);
  EXPECT(s.release('A'), "released A", "grant t3 B 12.1");
}

// --- Cancel, before and after each step

BOOST_AUTO_TEST_CASE(cancelled_before_any_answer) {
  pool_story s;
  s.acquire(1);
  EXPECT(s.cancel(1), "fail t1 Operation canceled");
  EXPECT(s.cancel(1));
  EXPECT(s.listed());
}

BOOST_AUTO_TEST_CASE(cancelled_while_the_session_is_created) {
  pool_story s;
  s.acquire(1);
  s.listed();
  EXPECT(s.cancel(1), "fail t1 Operation canceled");
  EXPECT(s.created());
  BOOST_TEST(s.entries() == "");
}

BOOST_AUTO_TEST_CASE(cancelled_while_the_slot_is_taken_gives_it_back) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.cancel(1), "fail t1 Operation canceled");
  EXPECT(s.done(), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(s.done());
  check_nothing_is_left(s);
}

BOOST_AUTO_TEST_CASE(cancelled_while_the_slot_is_taken_gives_it_to_the_next) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  s.acquire(2);
  s.cancel(1);
  EXPECT(s.done(), "grant t2 A 12.0");
}

BOOST_AUTO_TEST_CASE(cancelled_in_the_queue_leaves_it) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: lock s2 | tree");
  EXPECT(s.done(), "watch #3 from 15");
  EXPECT(s.cancel(1), "fail t1 Operation canceled", "txn #4: remove s2 @15");
  EXPECT(s.done());
  BOOST_TEST(s.entries() == "s1");
}

BOOST_AUTO_TEST_CASE(cancelled_while_joining_leaves_when_it_has_joined) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.cancel(1), "fail t1 Operation canceled");
  EXPECT(s.done(), "watch #3 from 15", "txn #4: remove s2 @15");
  s.done();
  BOOST_TEST(s.entries() == "s1");
}

BOOST_AUTO_TEST_CASE(a_join_whose_reply_is_overtaken_by_the_watch_is_left_again) {
  pool_story s(pool_story::usual(2));
  s.hold();
  EXPECT(s.after(10ms), "watch #3 from 1");
  const std::string other = s.others_join();
  s.record_becomes("s1 " + other);
  s.watched();
  EXPECT(s.acquire(2), "create m2");
  EXPECT(s.created(), "txn #5: lock s3 | tree");
  s.apply_now();                            // it is applied, its reply is on the way,
  s.others_join();                          // something else happens,
  EXPECT(s.watched(), "watch #6 from 19");  // and the watch is faster
  EXPECT(s.cancel(2), "fail t2 Operation canceled");
  EXPECT(s.done(), "txn #7: remove s3 @17");
}

BOOST_AUTO_TEST_CASE(granted_by_others_after_the_cancel_gives_it_on) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.cancel(1);
  s.leaves("s1");
  s.others_grant("s2", "s2");  // faster than our leaving
  EXPECT(s.done(), "read #5");
  EXPECT(s.listed(), "txn #6: cas @17 {} | remove s2 | tree");
  s.done();
  check_nothing_is_left(s);
}

// --- Others

BOOST_AUTO_TEST_CASE(a_release_grants_to_the_first_who_waits_elsewhere_in_the_same_write) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.others_join();
  s.others_join();
  EXPECT(s.watched(), "watch #4 from 16");
  EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 next s3 | remove s1");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.record() == "{s2}");
  BOOST_TEST(s.entries() == "s2 s3");
}

BOOST_AUTO_TEST_CASE(a_contested_slot_is_handed_on_here_until_the_time_for_that_is_over_then_goes_to_the_others) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.others_join();
  s.watched();
  for (std::uint64_t t = 2; t <= 4; ++t) s.acquire(t);
  EXPECT(s.release('A'), "released A", "grant t2 B 12.1");
  s.after(100ms);
  EXPECT(s.release('B'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1 | lock s1");
  EXPECT(s.done(), "released B");
  BOOST_TEST(s.entries() == "s2 s1");
  s.others_grant("s1", "s1");
  s.leaves("s2");
  EXPECT(s.watched(), "grant t3 C 16.0");
}

BOOST_AUTO_TEST_CASE(a_fresh_slot_is_used_once_however_late_it_comes) {
  pool_story s(with(1, [](pool_options& o) { o.local_handoff_time = 0s; }));
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.others_join();
  s.others_grant("s2", "s2");
  s.leaves("s1");
  EXPECT(s.watched(), "grant t1 A 18.0");
}

BOOST_AUTO_TEST_CASE(an_idle_slot_stays_for_a_while) {
  pool_story s(with(1, [](pool_options& o) { o.slot_idle_timeout = 1s; }));
  s.hold();
  EXPECT(s.release('A'), "released A");
  EXPECT(s.acquire(2), "grant t2 B 12.1");
  EXPECT(s.release('B'), "released B");
  const lines all = s.after(1s);
  BOOST_REQUIRE(!all.empty());
  BOOST_TEST(all.back() == "txn #4: cas @12 {} | remove s1 | tree");
}

BOOST_AUTO_TEST_CASE(an_idle_slot_goes_at_once_when_somebody_else_comes) {
  pool_story s(with(1, [](pool_options& o) { o.slot_idle_timeout = 1h; }));
  s.hold();
  s.release('A');
  EXPECT(s.after(10ms), "watch #3 from 1");
  s.watched();
  s.others_join();
  EXPECT(s.watched(), "watch #5 from 14", "txn #6: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
}

BOOST_AUTO_TEST_CASE(a_slot_that_others_granted_is_used) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.others_grant("s2", "s2");
  EXPECT(s.watched(), "grant t1 A 16.0");
}

/// The first grant changes the entry whatever is written, for a plain write takes its LockIndex back; the second does
/// so only because of the flags.
BOOST_AUTO_TEST_CASE(an_entry_that_others_granted_twice_has_the_second_grants_token) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.others_grant("s2", "s2");
  EXPECT(s.watched(), "grant t1 A 16.0");
  s.record_becomes("");  // an operator, and somebody holds the slot meanwhile
  s.others_grant("s2", "s2");
  s.leaves("s1");
  s.after(10ms);
  s.watched();
  EXPECT(s.acquire(2));
  EXPECT(s.release('A'), "released A", "grant t2 B 18.0");
}

BOOST_AUTO_TEST_CASE(a_dead_holder_is_replaced_by_the_head_of_the_queue_at_once_and_by_the_others_after_a_while) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.others_join();
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.leaves("s1");
  EXPECT(s.watched(), "watch #4 from 18");  // s2 stands first: its process should do it
  const lines all = s.after(200ms);
  BOOST_REQUIRE(!all.empty());
  BOOST_TEST(all.front() == "txn #5: cas @13 {s2} | grant s2 other @15 +1 next s3");
  s.done();
  s.leaves("s2");
  EXPECT(s.watched(), "watch #6 from 20", "txn #7: cas @19 {s3} | grant s3 us @17 +1");
  EXPECT(s.done(), "grant t1 A 21.0");
}

BOOST_AUTO_TEST_CASE(a_grantee_that_left_and_joined_again_meanwhile_stands_at_the_end) {
  pool_story s;
  s.hold();
  s.after(10ms);
  const std::string other = s.others_join();
  s.watched();
  EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  s.leaves(other);
  EXPECT(s.watched());  // the moment between
  s.others_join_again(other);
  s.acquire(2);
  EXPECT(s.done(), "read #6");  // refused: it may be a copy, so nobody is served before a look
  EXPECT(s.listed(), "watch #7 from 16", "released A", "grant t2 B 12.1");
  BOOST_TEST(s.record() == "{s1}");
}

BOOST_AUTO_TEST_CASE(a_go_contender_at_the_head_gets_its_chance_and_is_then_passed_over_for_good) {
  pool_story s;
  s.go_joins();
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: lock s2 | tree");
  EXPECT(s.done(), "watch #3 from 14");
  EXPECT(s.after(499ms));
  EXPECT(s.after(300ms), "note", "txn #4: cas @0 {s2} | grant s2 us @14 +1");
  EXPECT(s.done(), "grant t1 A 15.0");
  EXPECT(s.release('A'), "txn #5: cas @15 {} | remove s2 | tree");
  s.done();
  EXPECT(s.acquire(2), "txn #6: cas @16 {s2} | lock s2");  // no second wait for the same entry
}

BOOST_AUTO_TEST_CASE(each_go_contender_gets_its_own_chance) {
  pool_story s;
  s.go_joins();
  s.go_joins();
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  EXPECT(s.after(800ms), "note");
  EXPECT(s.after(800ms), "note", "txn #4: cas @0 {s3} | grant s3 us @16 +1");
}

BOOST_AUTO_TEST_CASE(a_go_contender_that_takes_its_slot_is_waited_for) {
  pool_story s;
  const std::string go = s.go_joins();
  s.acquire(1);
  s.listed();
  s.created();
  s.done();
  s.record_becomes(go);
  EXPECT(s.watched(), "watch #4 from 15");
  EXPECT(s.after(5s), "renew s2");
}

BOOST_AUTO_TEST_CASE(the_guides_record_is_written_back_as_it_was_found) {
  pool_story s;
  s.consul.put("p/.lock", R"({"Limit":1,"Holders":[]})", 0, s.now);
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @11 {s1} as a list flags 0 | lock s1");
}

BOOST_AUTO_TEST_CASE(a_lock_delay_keeps_the_dead_in_the_record) {
  pool_story s(with(1, [](pool_options& o) { o.lock_delay = 3s; }));
  const std::string other = s.others_join();
  s.record_becomes(other);
  s.leaves(other);
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: lock s2 | tree");
  s.done();
  EXPECT(s.after(2900ms));
  EXPECT(s.after(200ms), "txn #4: cas @13 {s2} | grant s2 us @16 +1");
}

// --- Limits and other people's keys

BOOST_AUTO_TEST_CASE(another_limit_fails_with_both_numbers) {
  pool_story s(pool_story::usual(2));
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
  pool_story s(pool_story::usual(2));
  s.record_becomes("s7 s8 s9", 3);
  s.acquire(1);
  s.listed();
  EXPECT(s.created(), "txn #2: cas @11 {s1} | lock s1 | tree");
}

BOOST_AUTO_TEST_CASE(foreign_flags_are_not_touched) {
  pool_story s;
  s.consul.put("p/.lock", "anything", 0x2ddccbc058a50c18, s.now);
  EXPECT(s.acquire(1), "read #1");
  EXPECT(s.listed(), "fail t1 the lock key belongs to something other than a semaphore");
  EXPECT(s.after(1min));
}

BOOST_AUTO_TEST_CASE(a_corrupt_record_is_not_touched) {
  pool_story s;
  s.consul.put("p/.lock", "{", semaphore_flags, s.now);
  s.try_acquire(1);
  EXPECT(s.listed(), "fail t1 the semaphore's record cannot be parsed");
  EXPECT(s.after(1min));
}

BOOST_AUTO_TEST_CASE(a_record_that_becomes_corrupt_loses_the_slots) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.consul.put("p/.lock", "{", semaphore_flags, s.now);
  EXPECT(s.watched(), "lose A removed");
  EXPECT(s.after(1s));
  EXPECT(s.release('A'), "destroy s1");
}

BOOST_AUTO_TEST_CASE(joining_a_record_that_has_become_foreign_leaves_nothing) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.acquire(2);
  s.record_becomes(s.others_join());
  EXPECT(s.done(), "txn #5: lock s1 | tree");  // refused: what is known is old, so join and look
  s.consul.put("p/.lock", "x", 42, s.now);
  EXPECT(s.done(), "fail t2 the lock key belongs to something other than a semaphore", "destroy s1");
  s.destroyed();
  s.consul.remove("p/.lock", s.now);
  BOOST_TEST(s.entries() == "s2");
}

// --- Losses

BOOST_AUTO_TEST_CASE(removed_from_the_record) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.record_becomes("");
  EXPECT(s.watched(), "lose A removed", "txn #4: remove s1 @12");  // it does not queue again
  EXPECT(s.done());
  EXPECT(s.release('A'), "destroy s1");
}

BOOST_AUTO_TEST_CASE(the_entry_is_gone) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.consul.destroy_session(s.real("s1"), s.now);
  EXPECT(s.watched(), "lose A session_invalidated", "destroy s1");
  EXPECT(s.destroyed());
  BOOST_TEST(s.pool().status().sessions == 0u);
}

BOOST_AUTO_TEST_CASE(a_holder_of_its_own_that_is_gone_keeps_it_from_nothing) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.consul.destroy_session(s.real("s1"), s.now);
  s.watched();
  s.destroyed();
  s.release('A');
  s.acquire(2);
  const auto said = s.run();
  BOOST_TEST(std::any_of(said.begin(), said.end(), [](const auto& each) { return each.starts_with("grant t2"); }));
}

BOOST_AUTO_TEST_CASE(a_renewal_finds_no_session) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.watched();
  EXPECT(s.after(6s), "renew s1");
  EXPECT(s.renewal_says_gone(), "read #5");  // which a new leader says of what it does not know yet
  EXPECT(s.listed());
  EXPECT(s.after(750ms), "renew s1");
  s.consul.destroy_session(s.real("s1"), s.now);
  EXPECT(s.renewal_says_gone(), "read #6");
  EXPECT(s.listed(), "lose A session_invalidated", "destroy s1");
}

BOOST_AUTO_TEST_CASE(the_lease_runs_from_the_sending_of_the_request) {
  pool_story s;
  s.acquire(1);
  s.listed();
  const time_point asked = s.now;
  s.after(2s);
  s.created();
  s.done();
  BOOST_TEST((granted_until(s) == asked + 13500ms));
  EXPECT(s.after(10ms), "watch #3 from 1");
  s.watched();

  lines all = s.after(4s);
  BOOST_TEST(all == lines{"renew s1"}, boost::test_tools::per_element());
  s.now += 1s;
  EXPECT(s.renewed(), "update A");
  BOOST_TEST((granted_until(s) < s.now + 13500ms - 900ms));
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_not_renewed_ends_once_and_for_all) {
  pool_story s;
  s.hold();
  const time_point start = s.now;
  s.after(10ms);
  s.watched();
  EXPECT(s.after(6s), "renew s1");
  EXPECT(s.after(2s), "update A suspect");
  EXPECT(s.after(5485ms));
  BOOST_TEST((s.now < start + 13500ms));
  EXPECT(s.after(10ms), "lose A lease_expired");
  EXPECT(s.renewed());  // too late
  s.acquire(2);
  EXPECT(s.after(2s));  // as long as its user goes on, nobody else has it
  EXPECT(s.release('A'), "txn #5: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "destroy s1", "create m2");
}

BOOST_AUTO_TEST_CASE(what_is_lost_and_never_let_go_is_given_up_when_consul_has_ended_its_session) {
  pool_story s;
  s.hold();
  s.acquire(2);
  s.after(10ms);
  s.watched();
  EXPECT(s.after(13500ms), "renew s1", "update A suspect", "lose A lease_expired");
  EXPECT(s.after(16480ms));
  EXPECT(s.after(20ms), "create m2", "destroy s1");
  EXPECT(s.release('A'));
}

BOOST_AUTO_TEST_CASE(a_renewal_that_comes_after_the_deadline_revives_nothing) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.watched();
  s.after(6s);
  s.now += 8s;  // the process was paused: the reply is looked at before the clock
  EXPECT(s.renewed(), "lose A lease_expired");
}

BOOST_AUTO_TEST_CASE(a_failed_renewal_is_tried_again_soon) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.watched();
  s.after(6s);
  EXPECT(s.renewal_fails());
  EXPECT(s.after(750ms), "renew s1");
}

BOOST_AUTO_TEST_CASE(a_failed_watch_loses_the_slot_without_grace) {
  pool_story s;
  s.hold();
  s.after(10ms);
  EXPECT(s.watch_fails(), "note", "update A suspect", "lose A watch_failed");
  EXPECT(s.release('A'), "txn #4: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "destroy s1");
}

BOOST_AUTO_TEST_CASE(a_failed_watch_is_ridden_out_with_grace) {
  pool_story s(with(1, [](pool_options& o) { o.outage_grace = 10s; }));
  s.hold();
  s.after(10ms);
  EXPECT(s.watch_fails(), "note", "update A suspect");
  EXPECT(s.after(20ms), "watch #4 from 0");
  EXPECT(s.watched(), "update A", "watch #5 from 12");
}

BOOST_AUTO_TEST_CASE(a_watch_that_fails_for_longer_than_the_grace_loses_the_slot) {
  pool_story s(with(1, [](pool_options& o) { o.outage_grace = 2s; }));
  s.hold();
  s.after(10ms);
  s.watch_fails();
  const lines all = s.after(1999ms);
  BOOST_TEST(std::count(all.begin(), all.end(), "lose A watch_failed") == 0);
  const lines last = s.after(1ms);
  BOOST_TEST(std::count(last.begin(), last.end(), "lose A watch_failed") == 1);
}

BOOST_AUTO_TEST_CASE(while_nobody_watches_nobody_gets_a_slot) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.acquire(2);
  EXPECT(s.watch_fails(), "note", "update A suspect", "lose A watch_failed");
  EXPECT(s.after(20ms), "watch #4 from 0");
  EXPECT(s.watched(), "watch #5 from 12");
  EXPECT(s.release('A'), "txn #6: cas @12 {} | remove s1 | tree");  // what was lost is not used again
  EXPECT(s.done(), "destroy s1", "create m2");
}

BOOST_AUTO_TEST_CASE(a_slot_of_two_sessions_is_lost_with_either_and_the_other_goes_back) {
  pool_story s(pool_story::usual(2));
  s.acquire(1, 2);
  s.listed();
  s.created();
  s.created();
  s.done();
  s.after(10ms);
  s.consul.destroy_session(s.real("s1"), s.now);
  EXPECT(s.watched(), "lose A session_invalidated", "watch #4 from 14", "destroy s1");
  EXPECT(s.release('A'), "txn #5: cas @13 {} | remove s2 | tree");
}

BOOST_AUTO_TEST_CASE(a_listing_older_than_our_own_write_is_no_loss) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.acquire(2);
  s.done();  // granted at 14
  EXPECT(s.after(10ms), "watch #5 from 13");
  EXPECT(s.watch_says({}, 13), "lose B session_invalidated",
         "destroy s1");  // asked for later: newer
}

BOOST_AUTO_TEST_CASE(a_listing_that_a_newer_one_overtook_is_no_loss) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.acquire(2);
  s.done();
  s.after(10ms);  // watch #5
  EXPECT(s.release('B'), "txn #6: cas @14 {} | remove s1 | tree");
  s.acquire(3);
  EXPECT(s.done(), "released B", "txn #7: cas @15 {s1} | lock s1");
  EXPECT(s.done(), "grant t3 C 16.0");
  // What #5 saw was before that.
  EXPECT(s.watch_says({}, 15));
  EXPECT(s.after(5ms), "watch #8 from 0");
  EXPECT(s.watched(), "watch #9 from 16");
}

// --- Conflicts

BOOST_AUTO_TEST_CASE(a_refused_acquire_joins_and_looks_in_one_request) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.acquire(2);
  const std::string other = s.others_join();
  s.record_becomes(other);
  EXPECT(s.done(), "txn #5: lock s1 | tree");
  EXPECT(s.done(), "watch #6 from 18");
}

BOOST_AUTO_TEST_CASE(a_refused_release_looks_again_and_tries_again) {
  pool_story s(pool_story::usual(2));
  s.hold();
  s.release('A');
  const std::string other = s.others_join();
  s.record_becomes("s1 " + other);
  EXPECT(s.done(), "read #4");
  EXPECT(s.listed(), "txn #5: cas @15 {s2} | remove s1 | tree");
  EXPECT(s.done(), "released A");
}

/// Something on the way repeats the request: the first has given the slot away, and the answer is the second's.
BOOST_AUTO_TEST_CASE(a_release_whose_copy_was_refused_serves_nobody_here) {
  pool_story s;
  s.hold();
  s.after(10ms);
  s.others_join();
  s.watched();
  EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  s.acquire(2);
  s.apply_now();
  EXPECT(s.refused({{0, event::refusal::conflict}}), "read #6");
  EXPECT(s.listed(), "released A", "create m2", "destroy s1");
  BOOST_TEST(s.record() == "{s2}");
}

/// Nothing in it keeps the copy of a join from being applied after the release. The session lives, so the entry would
/// stand in the queue, and be granted, with nobody behind it.
BOOST_AUTO_TEST_CASE(a_copy_of_a_join_that_comes_late_is_taken_back) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.others_join_again("s1");
  EXPECT(s.after(6s), "renew s1");
  EXPECT(s.renewed(), "read #4");
  EXPECT(s.listed(), "watch #5 from 14", "txn #6: remove s1 @14");
}

BOOST_AUTO_TEST_CASE(one_look_a_renewal_serves_all_idle_sessions) {
  pool_story s(pool_story::usual(2));
  s.acquire(1, 2);
  s.answer_reads_and_sessions();
  s.done();
  s.release('A');
  s.done();
  s.after(6s);
  EXPECT(s.renewed(), "read #4");
  s.listed();
  EXPECT(s.renewed());
}

/// A frozen agent accepts the request, and says nothing.
BOOST_AUTO_TEST_CASE(an_acquire_gives_up_though_a_request_is_under_way) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.acquire(2);
  BOOST_TEST(s.txn_open());
  EXPECT(s.after(5s), "renew s1");
  EXPECT(s.after(500ms), "fail t2 no complete reply came before the deadline");
}

BOOST_AUTO_TEST_CASE(the_record_may_go_away_whenever_nobody_holds) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.consul.remove("p/.lock", s.now);
  s.acquire(2);
  EXPECT(s.done(), "txn #5: lock s1 | tree");
  EXPECT(s.done(), "watch #6 from 16", "txn #7: cas @0 {s1} | grant s1 us @16 +1");
  EXPECT(s.done(), "grant t2 B 17.0");
}

BOOST_AUTO_TEST_CASE(a_session_that_died_unnoticed_is_replaced) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  s.consul.destroy_session(s.real("s1"), s.now);
  s.acquire(2);
  EXPECT(s.done(), "create m2", "destroy s1");
}

BOOST_AUTO_TEST_CASE(a_denied_write_fails_those_who_wait_and_does_not_turn_in_circles) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.refused({{0, event::refusal::permission_denied}, {1, event::refusal::permission_denied}}),
         "fail t1 the ACL token is missing, unknown or lacks the right");
  EXPECT(s.after(1s));
}

BOOST_AUTO_TEST_CASE(a_release_that_stays_denied_ends_with_its_session) {
  pool_story s;
  s.hold();
  s.release('A');
  std::size_t tries = 0;
  lines all;
  for (const time_point end = s.now + 6s; s.now < end && s.pool().status().sessions != 0;) {
    if (s.txn_open()) ++tries, s.refused({{0, event::refusal::permission_denied}});
    if (s.read_open()) s.listed();
    if (s.watch_open()) s.watched();
    all = s.after(5ms);
  }
  BOOST_TEST(tries < 30u);
  EXPECT(all, "destroy s1");
  EXPECT(s.destroyed(), "released A");
}

BOOST_AUTO_TEST_CASE(a_release_of_a_session_that_cannot_be_destroyed_ends_with_the_lease) {
  pool_story s;
  s.hold();
  s.release('A');
  s.unknown();
  EXPECT(s.listed(), "note", "destroy s1");
  EXPECT(s.destroyed(false));
  lines all;
  for (const time_point end = s.now + 30s; s.now < end && all.empty();) {
    const lines some = s.after(50ms);
    for (const std::string& line : some)
      if (line.starts_with("released")) all.push_back(line);
    if (!some.empty() && some.back() == "destroy s1") s.destroyed(false);
  }
  EXPECT(all, "released A no complete reply came before the deadline");
}

BOOST_AUTO_TEST_CASE(a_slot_that_nobody_wants_goes_with_its_session_if_no_write_is_allowed) {
  pool_story s;
  const std::string other = s.others_join();
  s.record_becomes(other, 1);
  s.acquire(1);
  while (s.entries() != "s1 s2") s.answer_all();
  s.after(10ms);
  s.leaves(other);
  s.others_grant("s2", "s2");
  s.cancel(1);
  for (const time_point end = s.now + 10s; s.now < end && s.pool().status().sessions != 0; s.after(50ms)) {
    if (s.txn_open()) s.refused({{0, event::refusal::permission_denied}});
    if (s.watch_open()) s.watched();
    s.answer_reads_and_sessions();
  }
  BOOST_TEST(s.pool().status().sessions == 0u);
}

BOOST_AUTO_TEST_CASE(sessions_that_cannot_be_created_fail_their_waiters_though_listings_come) {
  pool_story s(pool_story::usual(2));
  s.hold();
  s.after(20ms);
  std::size_t tries = 0;
  std::string other;
  lines failed;
  const auto see = [&](const lines& some) {
    for (const std::string& line : some) {
      tries += line.starts_with("create");
      if (line.starts_with("fail")) failed.push_back(line);
    }
  };
  see(s.acquire(2));
  const time_point end = s.now + 10s;
  for (std::size_t answered = 0; s.now < end && failed.empty();) {
    if (tries > answered) ++answered, see(s.create_fails(error::server_error));
    see(s.after(50ms));
    // Something changes all the time, and is seen.
    if (other.empty())
      other = s.go_joins();
    else
      s.leaves(std::exchange(other, {}));
    if (s.watch_open()) see(s.watched());
    while (s.renewal_open()) see(s.renewed());
  }
  BOOST_TEST(failed.size() == 1u);
  BOOST_TEST((s.now <= end - 4s));
  BOOST_TEST(tries < 30u);
}

BOOST_AUTO_TEST_CASE(an_acquire_answers_only_for_the_outage_in_its_own_time) {
  auto options = pool_story::usual(2);
  options.outage_grace = 13s;
  pool_story s(options);
  s.hold();
  s.after(20ms);
  for (const time_point end = s.now + 6s; s.now < end; s.after(50ms)) {
    if (s.watch_open()) s.watch_fails();
    while (s.renewal_open()) s.renewed();
  }
  EXPECT(s.acquire(2), "create m2");
}

BOOST_AUTO_TEST_CASE(a_session_that_could_not_be_had_and_is_not_needed_any_more_fails_nobody) {
  pool_story s(pool_story::usual(2));
  const std::string other = s.others_join(), another = s.others_join();
  s.acquire(1, 2);
  s.listed();
  s.created();
  s.create_fails();
  s.cancel(1);
  s.record_becomes(other + " " + another);
  s.acquire(2);
  check_that_nobody_fails(s);
}

BOOST_AUTO_TEST_CASE(a_join_whose_reply_was_lost_fails_nobody_later) {
  pool_story s;
  const std::string other = s.others_join();
  s.record_becomes(other);
  s.acquire(1);
  s.listed();
  s.created();
  s.applied_but_unknown();
  check_that_nobody_fails(s);
}

// --- Single looks

BOOST_AUTO_TEST_CASE(no_time_to_wait_is_a_single_look) {
  auto options = pool_story::usual();
  options.slot_idle_timeout = 1s;
  pool_story s(options);
  s.hold();
  s.release('A');
  EXPECT(s.acquire_until(2, s.now), "grant t2 B 12.1");
}

BOOST_AUTO_TEST_CASE(a_look_while_all_slots_are_in_use_here_asks_nobody) {
  pool_story s;
  s.hold();
  const std::size_t before = s.requests;
  EXPECT(s.try_acquire(2), "deny t2");
  BOOST_TEST(s.requests == before);
}

BOOST_AUTO_TEST_CASE(looks_do_not_keep_a_slot_from_going_back) {
  pool_story s;
  s.hold();
  s.after(20ms);
  s.others_join();
  s.watched();
  s.after(200ms);  // the time for local handoffs is over
  EXPECT(s.release('A'), "txn #5: cas @12 {s2} | grant s2 other @14 +1 | remove s1");
  s.not_sent();
  std::uint64_t next = 10;
  s.try_acquire(next++);
  s.try_acquire(next++);
  for (int i = 0; i < 100 && !s.txn_open(); ++i) {
    if (s.read_open()) {
      const lines said = s.listed();
      for (auto n = std::count_if(said.begin(), said.end(), [](auto& l) { return l.starts_with("deny"); }); n > 0; --n)
        s.try_acquire(next++);
    }
    s.after(10ms);
    while (s.renewal_open()) s.renewed();
  }
  BOOST_TEST(s.txn_open());
}

// --- Unknown outcomes

BOOST_AUTO_TEST_CASE(an_unknown_take_that_was_applied_is_found_and_used) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.applied_but_unknown(), "read #3");
  EXPECT(s.listed(), "grant t1 A 12.0");
}

BOOST_AUTO_TEST_CASE(an_unknown_take_that_was_not_applied_costs_its_session) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.unknown(), "read #3");
  EXPECT(s.listed(), "note", "destroy s1");
  EXPECT(s.after(50ms), "create m2");
  s.destroyed();
  EXPECT(s.created(), "txn #4: cas @0 {s2} | lock s2");
  BOOST_TEST(!s.applied_late());
  EXPECT(s.done(), "grant t1 A 15.0");
}

BOOST_AUTO_TEST_CASE(an_unknown_take_of_a_record_that_has_moved_on_keeps_its_session) {
  pool_story s;
  s.record_becomes("");
  s.acquire(1);
  s.listed();
  s.created();
  s.unknown();
  s.record_becomes(s.others_join());
  EXPECT(s.listed());
  EXPECT(s.after(50ms), "txn #4: lock s1 | tree");
  BOOST_TEST(!s.applied_late());
}

BOOST_AUTO_TEST_CASE(an_unknown_take_without_a_record_costs_its_session_because_a_record_may_come_and_go) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  s.unknown();
  s.record_becomes(s.others_join());
  EXPECT(s.listed(), "note", "destroy s1");
  s.destroyed();
  s.consul.remove("p/.lock", s.now);
  BOOST_TEST(!s.applied_late());
}

BOOST_AUTO_TEST_CASE(an_unknown_join) {
  for (const bool was_applied : {true, false}) {
    pool_story s;
    s.record_becomes(s.others_join());
    s.acquire(1);
    s.listed();
    EXPECT(s.created(), "txn #2: lock s2 | tree");
    EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), "read #3");
    if (was_applied) {
      EXPECT(s.listed(), "watch #4 from 15");
      continue;
    }
    EXPECT(s.listed(), "note", "destroy s2");
    s.destroyed();
    BOOST_TEST(!s.applied_late());
    BOOST_TEST(s.entries() == "s1");
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_release) {
  for (const bool was_applied : {true, false}) {
    pool_story s;
    s.hold();
    s.release('A');
    EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), "read #4");
    if (was_applied) {
      EXPECT(s.listed(), "released A");
      EXPECT(s.after(20ms));
      EXPECT(s.acquire(2), "txn #5: cas @13 {s1} | lock s1");
    } else {
      EXPECT(s.listed(), "note", "destroy s1");
      EXPECT(s.destroyed(), "released A");
      BOOST_TEST(s.entries() == "");
      BOOST_TEST(s.applied_late());  // it may: nobody uses that session any more
      BOOST_TEST(s.record() == "{}");
    }
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_release_of_a_record_that_has_moved_on_is_tried_again_and_its_token_still_grows) {
  pool_story s(pool_story::usual(2));
  s.hold();
  s.release('A');
  s.unknown();
  const std::string other = s.others_join();
  s.record_becomes("s1 " + other);
  s.acquire(2);
  EXPECT(s.listed(), "released A", "grant t2 B 12.1");
  BOOST_TEST(!s.applied_late());
}

BOOST_AUTO_TEST_CASE(an_unknown_leave) {
  for (const bool was_applied : {true, false}) {
    pool_story s;
    s.record_becomes(s.others_join());
    s.acquire(1);
    s.listed();
    s.created();
    s.done();
    s.cancel(1);
    EXPECT(was_applied ? s.applied_but_unknown() : s.unknown(), "read #5");
    if (was_applied) {
      EXPECT(s.listed());
    } else {
      EXPECT(s.listed(), "note", "destroy s2");
      s.destroyed();
    }
    BOOST_TEST(s.entries() == "s1");
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_requeue) {
  for (const bool was_applied : {true, false}) {
    pool_story s;
    s.hold();
    s.after(10ms);
    s.others_join();
    s.watched();
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

BOOST_AUTO_TEST_CASE(a_listing_asked_for_before_the_outcome_was_unknown_decides_nothing) {
  pool_story s;
  s.record_becomes(s.others_join());
  s.acquire(1);
  s.listed();
  s.created();
  s.done();  // watch #3
  s.cancel(1);
  EXPECT(s.unknown(), "read #5");
  s.others_join();
  EXPECT(s.watched());
  EXPECT(s.listed(), "note", "destroy s2");
}

BOOST_AUTO_TEST_CASE(a_write_that_was_not_sent_is_tried_again_with_the_same_session) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.created();
  EXPECT(s.not_sent());
  EXPECT(s.after(20ms), "txn #3: cas @0 {s1} | lock s1");
  EXPECT(s.done(), "grant t1 A 12.0");
}

// --- Outages

BOOST_AUTO_TEST_CASE(those_who_wait_in_an_outage_fail_after_a_while_with_the_last_error) {
  pool_story s;
  s.acquire(1);
  lines all;
  std::size_t tries = 0;
  for (const time_point end = s.now + 4990ms; s.now < end;) {
    if (s.read_open()) ++tries, s.read_fails(error::server_error);
    all = s.after(10ms);
    if (s.pool().status().waiting == 0) break;
  }
  BOOST_TEST(s.pool().status().waiting == 1u);
  BOOST_TEST(tries > 5u);
  BOOST_TEST(tries < 40u);
  s.after(10ms);
  BOOST_TEST(s.pool().status().waiting == 0u);
  BOOST_TEST((failed_with(s).code == error::server_error));
  EXPECT(s.after(1min));
}

BOOST_AUTO_TEST_CASE(writes_that_fail_while_reads_work_fail_those_who_wait_too) {
  pool_story s;
  s.acquire(1);
  std::size_t writes = 0;
  for (const time_point end = s.now + 6s; s.now < end && s.pool().status().waiting != 0;) {
    s.answer_reads_and_sessions();
    if (s.txn_open()) ++writes, s.unknown(error::server_error);
    if (s.read_open()) s.listed();
    if (s.pool().status().waiting != 0) s.after(10ms);
  }
  BOOST_TEST(s.pool().status().waiting == 0u);
  BOOST_TEST(writes < 40u);
}

/// Whoever is left out would be taken for dead.
BOOST_AUTO_TEST_CASE(a_listing_without_what_the_token_may_not_read_is_none) {
  pool_story s;
  s.acquire(1);
  EXPECT(s.read_filtered(), "fail t1 the ACL token is missing, unknown or lacks the right");
  BOOST_TEST(failed_with(s).details.message == "the ACL token may not read all that stands there");
}

BOOST_AUTO_TEST_CASE(one_that_is_for_a_single_acquire_ends_with_it) {
  pool_story s(with(1, [](pool_options& o) { o.single = true; }));
  s.hold();
  s.release('A');
  check_nothing_is_left(s);
  BOOST_TEST(s.pool().status().sessions == 0u);
}

BOOST_AUTO_TEST_CASE(final_errors_fail_at_once) {
  {
    pool_story s;
    s.acquire(1);
    EXPECT(s.read_fails(error::permission_denied), "fail t1 the ACL token is missing, unknown or lacks the right");
  }
  {
    pool_story s;
    s.acquire(1);
    s.listed();
    EXPECT(s.create_fails(error::invalid_ttl), "fail t1 the session TTL is out of the accepted range");
  }
  {
    pool_story s;
    s.acquire(1);
    s.listed();
    s.created();
    EXPECT(s.not_sent(error::too_large), "fail t1 the request is over one of Consul's size limits");
  }
}

BOOST_AUTO_TEST_CASE(a_look_that_fails_for_good_is_not_repeated_in_a_circle) {
  pool_story s;
  s.hold();
  s.release('A');
  s.record_becomes("s1", 1);
  s.consul.put("p/.lock", R"({"Holders":{")" + s.real("s1") + R"(":true},"Limit":1})", semaphore_flags, s.now);
  EXPECT(s.done(), "read #4");
  EXPECT(s.read_fails(error::permission_denied));
  std::size_t tries = 0;
  for (int i = 0; i < 100; ++i) {
    s.after(10ms);
    if (s.read_open()) ++tries, s.read_fails(error::permission_denied);
  }
  BOOST_TEST(tries > 1u);
  BOOST_TEST(tries < 20u);
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_created_is_tried_again) {
  pool_story s;
  s.acquire(1);
  s.listed();
  EXPECT(s.create_fails());
  EXPECT(s.after(20ms), "create m2");
  s.created();
  EXPECT(s.done(), "grant t1 A 12.0");
}

// --- Watches and sessions

BOOST_AUTO_TEST_CASE(a_short_hold_gets_no_watch) {
  pool_story s;
  s.hold();
  EXPECT(s.after(4ms));
  EXPECT(s.after(1ms), "watch #3 from 1");
}

BOOST_AUTO_TEST_CASE(an_index_that_goes_backwards_is_followed) {
  pool_story s;
  s.hold();
  s.after(10ms);
  EXPECT(s.watched(), "watch #4 from 12");
  EXPECT(s.watch_says(s.consul.list("p/"), 5), "watch #5 from 5");
}

BOOST_AUTO_TEST_CASE(a_listing_without_an_index_is_a_failed_watch) {
  pool_story s;
  s.hold();
  s.after(10ms);
  EXPECT(s.watch_says(s.consul.list("p/"), 0), "note", "update A suspect", "lose A watch_failed");
}

BOOST_AUTO_TEST_CASE(a_session_that_nobody_needs_is_kept_for_a_while_and_then_ended) {
  pool_story s;
  s.hold();
  s.release('A');
  s.done();
  for (int i = 0; i < 59; ++i) {
    s.after(1s);
    if (s.renewal_open()) s.renewed();
  }
  BOOST_TEST(s.pool().status().sessions == 1u);
  lines all = s.after(2s);
  BOOST_REQUIRE(!all.empty());
  BOOST_TEST(all.back() == "destroy s1");
  EXPECT(s.destroyed(false));  // nobody knows
  EXPECT(s.after(50ms), "destroy s1");
  EXPECT(s.destroyed());
  EXPECT(s.after(1h));
}

// --- Close

/// Until it is destroyed, whoever has its guard could write, though the slot is another's.
BOOST_AUTO_TEST_CASE(a_session_that_must_end_leaves_the_record_with_its_entry) {
  pool_story s;
  s.hold();
  s.acquire(2);
  EXPECT(s.jump(1h), "lose A lease_expired", "create m2", "destroy s1");  // which Consul had ended by then
  EXPECT(s.created(), "txn #3: cas @12 {s2} | remove s1 | lock s2");
  EXPECT(s.done(), "grant t2 B 14.0");
  BOOST_TEST(s.entries() == "s2");
}

BOOST_AUTO_TEST_CASE(close_takes_the_slots_back) {
  pool_story s;
  s.hold();
  s.acquire(2);
  EXPECT(s.close(true), "fail t2 the semaphore or client was closed", "lose A closed");
  EXPECT(s.release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "destroy s1");
  EXPECT(s.destroyed(), "closed");
  EXPECT(s.acquire(3), "fail t3 the semaphore or client was closed");
  BOOST_TEST((s.pool().wake() == never));
}

BOOST_AUTO_TEST_CASE(close_waits_for_those_who_do_not_let_go_so_long_and_no_longer) {
  pool_story s;
  s.hold();
  EXPECT(s.close(true), "lose A closed");
  const lines all = s.after(5s);
  BOOST_REQUIRE(!all.empty());
  BOOST_TEST(all.back() == "txn #4: cas @12 {} | remove s1 | tree");
  EXPECT(s.done(), "destroy s1");
  EXPECT(s.destroyed(), "closed");
  EXPECT(s.release('A'));
}

BOOST_AUTO_TEST_CASE(close_without_revoke_waits_for_the_releases) {
  pool_story s;
  s.hold();
  EXPECT(s.close(false));
  EXPECT(s.acquire(2), "fail t2 the semaphore or client was closed");
  s.after(1s);
  EXPECT(s.release('A'), "txn #4: cas @12 {} | remove s1 | tree");
  s.done();
  EXPECT(s.destroyed(), "closed");
}

BOOST_AUTO_TEST_CASE(close_of_an_unused_pool_is_done_at_once) {
  pool_story s;
  EXPECT(s.close(true), "closed");
  EXPECT(s.close(true));
}

BOOST_AUTO_TEST_CASE(close_ends_in_an_outage_too) {
  pool_story s;
  s.hold();
  s.close(false);
  s.release('A');
  lines all = s.after(5s);
  BOOST_REQUIRE(all.size() >= 2u);
  BOOST_TEST(all[all.size() - 1] == "closed no complete reply came before the deadline");
  BOOST_TEST(std::count(all.begin(), all.end(), "released A no complete reply came before the deadline") == 1);
}

BOOST_AUTO_TEST_CASE(close_leaves_no_slot_free_that_somebody_waits_for) {
  pool_story s;
  s.hold();
  s.close(true);
  EXPECT(s.release('A'), "txn #3: cas @12 {} | remove s1 | tree");
  s.others_join();  // before that arrives
  EXPECT(s.applied_but_unknown(), "read #4");
  EXPECT(s.listed(), "destroy s1");
  EXPECT(s.destroyed());
  EXPECT(s.after(50ms), "txn #5: cas @15 {s2} | grant s2 other @14 +1");
  EXPECT(s.done(), "closed");
}

BOOST_AUTO_TEST_CASE(close_while_a_session_is_created_ends_it) {
  pool_story s;
  s.acquire(1);
  s.listed();
  EXPECT(s.close(true), "fail t1 the semaphore or client was closed");
  EXPECT(s.created(), "destroy s1");
  EXPECT(s.destroyed(), "closed");
}

// --- All in all

BOOST_AUTO_TEST_CASE(the_same_events_give_the_same_actions) {
  const auto run = [](std::uint64_t seed) {
    pool_story s(pool_story::usual(), seed);
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

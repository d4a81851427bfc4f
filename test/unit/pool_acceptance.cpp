// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Grants by other processes, which count when they are accepted (protocol/pool/acceptance.hpp).

#include <boost/test/unit_test.hpp>

#include "protocol/pool/acceptance.hpp"
#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using lines = pool_story::lines;

/// The TTL is 15 s. A process that learns of a grant within a second believes at once, for 2.5 s more without an
/// acceptance.
struct accepting_story : pool_story {
  explicit accepting_story(std::uint32_t limit = 1) : pool_story(accepting(usual(limit))) {}
  explicit accepting_story(pool_options o) : pool_story(std::move(o)) {}
  static pool_options accepting(pool_options o) {
    o.accepts = true;
    o.wall_offset = 1h;
    return o;
  }
  static pool_options numbered() {
    return with(accepting(usual(1)), [](pool_options& o) { o.numbered = true; });
  }
};

/// s1 belongs to another process and holds. s2 is ours and waits.
struct waiting : accepting_story {
  waiting() {
    record_becomes(others_join());
    look(1);
    run();
  }
  /// Another process grants us the slot after this time.
  lines granted_after(duration wait) {
    after(wait);
    leaves("s1");
    others_grant("s2", "s2");
    return watched();
  }
};

/// Another process holds a slot with s1, by our grant, which it has not accepted. s3 waits behind it.
struct granting : accepting_story {
  explicit granting(pool_options o = accepting(usual(1))) : accepting_story(std::move(o)) {
    hold();
    other = others_join_and_accept();
    next = others_join_and_accept();
    run();
    release('A');
    run();
  }
  std::string other, next;
};

struct granting_mutex : granting {
  granting_mutex() : granting(accepting(usual_mutex())) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_acceptance, accepting_story)

BOOST_AUTO_TEST_CASE(an_entry_says_that_it_accepts) {
  hold();
  BOOST_TEST(parse_entry_value(consul.get("p/" + real("s1"))->value).lease->accepts);
  BOOST_TEST(!acceptance_open());  // it has taken the slot itself
  after(1s);
  BOOST_TEST(!acceptance_open());
}

BOOST_FIXTURE_TEST_CASE(who_hears_of_a_grant_at_once_believes_and_accepts_after_a_while, waiting) {
  BOOST_TEST(says(granted_after(500ms), "grant t1 A"));
  BOOST_TEST(!acceptance_open());
  after(100ms);
  BOOST_TEST(acceptance_open());
  EXPECT(acceptance_done(), "update A");  // its deadline is that of the lease now
  after(3s);
  BOOST_TEST(!acceptance_open());
  run();
  BOOST_TEST(pool().status().sessions == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_short_hold_is_not_accepted, waiting) {
  granted_after(500ms);
  after(50ms);
  const std::string write = last_of(release('A'));
  BOOST_TEST(write.find("accept") == std::string::npos, write);
  after(1s);
  BOOST_TEST(!acceptance_open());
}

BOOST_FIXTURE_TEST_CASE(who_hears_of_a_grant_late_accepts_first, waiting) {
  BOOST_TEST(!says(granted_after(1500ms), "grant t1"));
  BOOST_TEST(acceptance_open());
  BOOST_TEST(says(acceptance_done(), "grant t1 A"));
}

/// Another process waits. The slot does not go there while this process accepts it.
BOOST_FIXTURE_TEST_CASE(a_late_grant_is_accepted_although_others_wait, waiting) {
  others_join_and_accept();
  run();
  const lines all = granted_after(1500ms);
  BOOST_TEST(times(all, "txn #") == 1u);
  BOOST_REQUIRE(acceptance_open());
  BOOST_TEST(says(acceptance_done(), "grant t1 A"));
}

BOOST_FIXTURE_TEST_CASE(what_is_not_accepted_in_time_is_lost, waiting) {
  granted_after(500ms);
  after(100ms);
  acceptance_is(event::outcome::unknown);
  lines all;
  for (const time_point end = now + 3500ms; now < end;) {
    if (acceptance_open()) acceptance_is(event::outcome::unknown);
    answer_reads_and_sessions();
    append(all, after(10ms));
  }
  BOOST_TEST(times(all, "lose A not_accepted") == 1u);
}

/// It may be the answer to a copy of the request.
BOOST_FIXTURE_TEST_CASE(a_refusal_is_not_believed, waiting) {
  granted_after(500ms);
  after(100ms);
  BOOST_TEST(says(acceptance_is(event::outcome::refused), "read #"));
  listed();
  after(100ms);
  BOOST_TEST(acceptance_open());
  EXPECT(acceptance_done(), "update A");
}

BOOST_FIXTURE_TEST_CASE(the_key_of_an_acceptance_goes_with_the_entry, waiting) {
  granted_after(500ms);
  after(100ms);
  acceptance_done();
  BOOST_TEST(consul.get("p/" + real("s2") + ".accepted").has_value());
  const std::string write = last_of(release('A'));
  BOOST_TEST(write.find("unaccept s2 | remove s2") != std::string::npos, write);
  run();
  BOOST_TEST(!consul.get("p/" + real("s2") + ".accepted").has_value());
}

// Other events that may come before a grant is accepted.

BOOST_FIXTURE_TEST_CASE(a_slot_that_is_not_accepted_yet_can_be_revoked, waiting) {
  granted_after(500ms);
  order([this](const inspection& seen) { return revoke(seen, real("s2")); });
  BOOST_TEST(says(go_on(), "revoke A"));
  after(100ms);
  EXPECT(acceptance_done(), "update A");
  release('A');
  run();
  BOOST_TEST(record() == "{}");
  BOOST_TEST(entries().empty());
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_is_not_accepted_yet_is_lost_when_its_holder_is_evicted, waiting) {
  granted_after(500ms);
  after(100ms);
  order([this](const inspection& seen) { return evict(seen, real("s2"), true); });
  BOOST_TEST(says(go_on(), "lose A not_accepted"));  // its entry has gone, as if it had been taken back
  acceptance_is(event::outcome::refused);
  release('A');
  run();
  after(5s);
  BOOST_TEST(!acceptance_open());
}

BOOST_FIXTURE_TEST_CASE(a_pool_that_closes_gives_back_a_slot_that_is_not_accepted_yet, waiting) {
  granted_after(500ms);
  after(100ms);
  lines all = close(true);
  append(all, release('A'));
  append(all, acceptance_is(event::outcome::unknown));
  append(all, run());
  BOOST_TEST(says(all, "closed"));
  BOOST_TEST(record() == "{}");
  BOOST_TEST(entries().empty());
}

/// Its user gets the next slot here, without a request. The session has to accept as before.
BOOST_FIXTURE_TEST_CASE(a_handoff_in_the_process_keeps_the_time_of_the_acceptance, waiting) {
  granted_after(500ms);
  after(50ms);
  acquire(2);
  BOOST_TEST(says(release('A'), "grant t2 B"));
  after(50ms);
  BOOST_TEST(acceptance_open());
  EXPECT(acceptance_done(), "update B");
}

/// Fence checks that were made before the acceptance stay valid while the slot is held, because the entry keeps its
/// index.
BOOST_FIXTURE_TEST_CASE(fence_checks_of_before_the_acceptance_stay_true, waiting) {
  granted_after(500ms);
  const auto before = pool().entries_of(slot('A'));
  after(100ms);
  acceptance_done();
  const auto after_it = pool().entries_of(slot('A'));
  BOOST_REQUIRE(before.size() == 1u);
  BOOST_TEST(before.front().grant == after_it.front().grant);
  BOOST_TEST(consul.get("p/" + real("s2"))->modify_index == before.front().grant);
}

BOOST_FIXTURE_TEST_CASE(a_slot_that_was_taken_back_has_a_higher_token, granting) {
  const std::uint64_t before = consul.get("p/" + real(other))->modify_index;
  go_on(4800ms);
  BOOST_REQUIRE(record() == "{" + next + "}");
  BOOST_TEST(consul.get("p/" + real(next))->modify_index > before);
}

BOOST_FIXTURE_TEST_CASE(a_grant_that_nobody_accepts_is_taken_back_and_goes_to_the_next, granting) {
  BOOST_REQUIRE(record() == "{" + other + "}");
  go_on(4600ms);
  BOOST_TEST(record() == "{" + other + "}");
  go_on(200ms);
  BOOST_TEST(record() == "{" + next + "}");
  BOOST_TEST(entries().find(other) == std::string::npos);
}

/// The write that grants leaves another slot free, and so reads the entries. Nobody else waits who could do it.
BOOST_AUTO_TEST_CASE(a_grant_that_was_written_with_a_listing_is_taken_back_too) {
  accepting_story s(2);
  s.hold(1, 2);
  s.go_on(20ms);
  const std::string other = s.others_join_and_accept();
  s.go_on(20ms);
  s.release('A');
  s.run();
  BOOST_REQUIRE(s.record() == "{" + other + "}");
  for (int i = 0; i != 10; ++i) s.go_on(1s);
  BOOST_TEST(s.record() == "{}");
}

BOOST_FIXTURE_TEST_CASE(what_is_accepted_is_not_taken_back, granting) {
  const std::string key = "p/" + real(other) + ".accepted";
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  go_on(20s);
  BOOST_TEST(record() == "{" + other + "}");
}

/// Nobody watches it any more. One read shows that it was accepted.
BOOST_FIXTURE_TEST_CASE(before_a_grant_is_taken_back_it_is_looked_at, granting) {
  const std::string key = "p/" + real(other) + ".accepted";
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  const lines all = go_on(4800ms);
  BOOST_TEST(times(all, "read #") == 1u);
  BOOST_TEST(times(all, "txn #") == 0u);
}

/// The holder's session has ended with its node, and the acceptance has gone with it. The holder is spared like any
/// other.
BOOST_FIXTURE_TEST_CASE(what_was_accepted_unseen_and_has_ended_since_is_not_taken_back, granting) {
  after(4600ms);
  consul.destroy_session(real(other), now);
  lines all = go_on(200ms);
  BOOST_TEST(times(all, "if not accepted") == 0u);
}

BOOST_AUTO_TEST_CASE(an_entry_that_accepts_nothing_is_never_taken_back) {
  hold();
  const std::string other = others_join();
  others_join();
  run();
  release('A');
  run();
  go_on(20s);
  BOOST_TEST(record() == "{" + other + "}");
}

BOOST_AUTO_TEST_CASE(the_first_that_waits_takes_back_what_others_have_granted) {
  const std::string holder = others_join(), other = others_join_and_accept();
  record_becomes(holder);
  look(1);
  run();
  leaves(holder);
  others_grant(other, other);
  run();
  go_on(3700ms);
  BOOST_TEST(record() == "{" + other + "}");
  BOOST_TEST(says(go_on(1s), "grant t1 A"));
}

/// The queue may begin with more entries of the dead.
BOOST_FIXTURE_TEST_CASE(who_takes_a_grant_back_uses_the_slot_first, granting) {
  acquire(2);
  run();
  BOOST_TEST(record() == "{" + other + "}");
  BOOST_TEST(says(go_on(4s), "grant t2"));
  BOOST_TEST(entries().find(next) != std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(a_mutex_that_nobody_accepts_goes_to_the_next_without_a_lock_delay, granting_mutex) {
  BOOST_REQUIRE(record() == "{" + other + "}");
  go_on(4600ms);
  BOOST_TEST(record() == "{" + other + "}");
  go_on(200ms);
  BOOST_TEST(record() == "{" + next + "}");
  BOOST_TEST(entries() == next);
}

BOOST_FIXTURE_TEST_CASE(a_mutex_that_is_accepted_stays_and_its_term_keeps_its_name, granting_mutex) {
  const kv_entry before = *consul.get("p/.lock");
  const std::string key = "p/.lock/" + real(other) + ".accepted";
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  go_on(20s);
  BOOST_TEST((*consul.get("p/.lock") == before));
}

BOOST_AUTO_TEST_CASE(a_holder_of_a_mutex_accepts_it_without_a_write_of_the_key) {
  accepting_story s(accepting(usual_mutex()));
  const std::string first = s.others_join();
  s.others_grant(first, first);
  s.look(1);
  s.run();
  s.after(500ms);
  s.others_grant("s2", "s2");
  BOOST_TEST(says(s.watched(), "grant t1 A"));
  const kv_entry before = *s.consul.get("p/.lock");
  s.after(100ms);
  BOOST_REQUIRE(s.acceptance_open());
  EXPECT(s.acceptance_done(), "update A");
  BOOST_TEST((*s.consul.get("p/.lock") == before));
}

BOOST_AUTO_TEST_CASE(a_number_goes_with_the_slot_that_is_taken_back) {
  accepting_story s(numbered());
  s.hold();
  s.after(20ms);
  const std::string other = s.others_join_and_accept(contender_magic | numbered_flag);
  const std::string next = s.others_join_and_accept(contender_magic | numbered_flag);
  s.run();
  s.release('A');
  s.run();
  BOOST_REQUIRE(s.consul.get(s.number_key(0))->session == s.real(other));
  s.go_on(4800ms);
  BOOST_TEST(s.record() == "{" + next + "}");
  BOOST_TEST(s.consul.get(s.number_key(0))->session == s.real(next));
}

BOOST_AUTO_TEST_CASE(a_number_of_a_slot_that_is_taken_back_is_free_for_those_who_take_none) {
  accepting_story s(numbered());
  s.hold();
  s.after(20ms);
  const std::string other = s.others_join_and_accept(contender_magic | numbered_flag);
  s.others_join_and_accept();
  s.run();
  s.release('A');
  s.run();
  s.go_on(4800ms);
  BOOST_TEST(s.consul.get(s.number_key(0))->session.empty());
}

/// A request for two slots gets all or nothing, and only one of its grants is accepted.
BOOST_AUTO_TEST_CASE(one_missing_acceptance_loses_all_slots_of_a_request) {
  accepting_story s(2);
  const std::string first = s.others_join(), second = s.others_join();
  s.record_becomes(first + " " + second);
  s.look(1, 2);
  s.run();
  s.after(500ms);
  s.leaves(first);
  s.leaves(second);
  s.others_grant("s3 s4", "s3 s4");
  BOOST_REQUIRE(says(s.watched(), "grant t1 A"));
  lines all;
  for (const time_point end = s.now + 3500ms; s.now < end;) {
    if (s.acceptance_open()) s.acceptance_is(event::outcome::unknown);
    s.answer_reads_and_sessions();
    append(all, s.after(10ms));
  }
  BOOST_TEST(times(all, "lose A not_accepted") == 1u);
  append(all, s.release('A'));
  append(all, s.run());
  BOOST_TEST(s.record() == "{}");
}

/// The process that granted wants no slot itself. It takes the grant back if no waiting process does.
BOOST_AUTO_TEST_CASE(other_entries_of_a_process_that_did_not_accept_are_granted_last) {
  hold();
  const std::string dead = others_join_and_accept(), its_second = others_join_and_accept();
  const std::string living = others_join_and_accept(contender_magic, "living");
  run();
  release('A');
  run();
  BOOST_REQUIRE(record() == "{" + dead + "}");
  go_on(4800ms);
  BOOST_TEST(record() == "{" + living + "}");
  BOOST_TEST(entries() == its_second + " " + living);
}

BOOST_AUTO_TEST_CASE(a_process_that_shows_that_it_lives_is_granted_in_turn_again) {
  doubtful_processes doubtful;
  const auto with = [](std::vector<contender> entries) {
    snapshot seen;
    seen.contenders = contender_queue(std::move(entries));
    return seen;
  };
  doubtful.took_back("x", 20, now + 15s);
  const snapshot before = with({{"a", "x", contender_magic, 10, 10}, {"b", "y", contender_magic, 11, 11}});
  doubtful.saw(now, before);
  BOOST_TEST((doubtful.sessions(now, before, {}) == std::vector<std::string>{"a"}));
  BOOST_TEST(doubtful.sessions(now + 15s, before, {}).empty());
  const snapshot later = with({{"a", "x", contender_magic, 10, 10}, {"c", "x", contender_magic, 21, 21}});
  doubtful.saw(now, later);
  BOOST_TEST(doubtful.sessions(now, later, {}).empty());
}

/// A late copy of the join has erased the mark of the grant in the entry. Nobody can take such a slot back.
BOOST_AUTO_TEST_CASE(a_grant_whose_entry_a_copy_of_the_join_has_overwritten_is_used) {
  accepting_story s(with(accepting(usual(1)), [](pool_options& o) { o.own_watch = 100ms, o.own_watch_each = 5ms; }));
  for (int i = 0; i < 6; ++i) s.others_join();
  s.others_grant("s1", "s1");
  s.hold();
  const kv_entry joined = *s.consul.get("p/" + s.real("s7"));
  s.leaves("s1");
  s.others_grant("s7", "s7");
  s.consul.transact({{kv_verb::lock, joined.key, joined.value, joined.flags, 0, joined.session}}, s.now);
  BOOST_TEST(says(s.go_on(2s), "grant t1 A"));
}

BOOST_AUTO_TEST_CASE(short_sessions_accept_nothing) {
  BOOST_TEST(!acceptance_of(1s).has_value());
  const acceptance_times usual = *acceptance_of(15s);
  BOOST_TEST((usual.fresh == 1s && usual.within == 2500ms && usual.slack == 300ms));
}

/// doc/explanation/how_it_works.md shows these steps. There, s1 is the session of process A, and s2 is the session of
/// process B. Each half is told by one of the processes.
BOOST_AUTO_TEST_CASE(an_acquire_under_contention_step_by_step) {
  const std::string holders_a = R"({"Limit":1,"Holders":{"00000001-0000-4000-8000-000000000000":true}})";
  const std::string holders_b = R"({"Limit":1,"Holders":{"00000002-0000-4000-8000-000000000000":true}})";

  accepting_story a;
  a.hold();
  EXPECT(a.after(10ms), "watch #3 from 1");
  BOOST_TEST(a.value() == holders_a);
  a.others_join_and_accept();
  BOOST_TEST(a.entries() == "s1 s2");
  EXPECT(a.watched(), "watch #4 from 14");
  a.after(500ms);
  EXPECT(a.release('A'), "txn #5: cas @12 {s2} | grant s2 other\n~\n@3600+15000-1500 @14 +1 | remove s1");
  EXPECT(a.done(), "released A");
  BOOST_TEST(a.value() == holders_b);
  BOOST_TEST(a.entries() == "s2");

  accepting_story b;
  b.record_becomes(b.others_join());
  EXPECT(b.acquire(1), "read #1");
  EXPECT(b.listed(), "create m1");
  EXPECT(b.created(), "txn #2: lock s2 | tree");
  EXPECT(b.done(), "watch #3 from 15");
  BOOST_TEST(b.value() == holders_a);
  BOOST_TEST(b.entries() == "s1 s2");
  EXPECT(b.after(500ms));
  b.leaves("s1");
  b.others_grant("s2", "s2");
  EXPECT(b.watched(), "grant t1 A 17.0");
  EXPECT(b.after(50ms), "watch #4 from 17");
  EXPECT(b.after(100ms), "txn #5: if s2 @17 | accept s2");
  EXPECT(b.acceptance_done(), "update A");
  EXPECT(b.release('A'), "txn #6: cas @17 {} | unaccept s2 | remove s2 | tree");
  EXPECT(b.done(), "released A");
  BOOST_TEST(b.value() == R"({"Limit":1,"Holders":{}})");
  BOOST_TEST(b.entries() == "");
}

BOOST_AUTO_TEST_SUITE_END()

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

BOOST_FIXTURE_TEST_CASE(a_grant_that_nobody_accepts_is_taken_back_and_goes_to_the_next, granting) {
  BOOST_REQUIRE(record() == "{" + other + "}");
  go_on(4600ms);
  BOOST_TEST(record() == "{" + other + "}");
  go_on(200ms);
  BOOST_TEST(record() == "{" + next + "}");
  BOOST_TEST(entries().find(other) == std::string::npos);
}

/// Nobody watches it any more. One read shows that it was accepted.
BOOST_FIXTURE_TEST_CASE(before_a_grant_is_taken_back_it_is_looked_at, granting) {
  const std::string key = "p/" + real(other) + ".accepted";
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  const lines all = go_on(4800ms);
  BOOST_TEST(times(all, "read #") == 1u);
  BOOST_TEST(times(all, "txn #") == 0u);
}

/// The queue may begin with more entries of the dead.
BOOST_FIXTURE_TEST_CASE(who_takes_a_grant_back_uses_the_slot_first, granting) {
  acquire(2);
  run();
  BOOST_TEST(record() == "{" + other + "}");
  BOOST_TEST(says(go_on(4s), "grant t2"));
  BOOST_TEST(entries().find(next) != std::string::npos);
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

// Grants by other processes, which count when they are accepted (protocol/acceptance.hpp).

#include <boost/test/unit_test.hpp>

#include "protocol/acceptance.hpp"
#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using lines = pool_story::lines;

/// With a TTL of 15 s: who hears of a grant within a second believes at once, for 2.5 s more without an acceptance.
struct accepting_story : pool_story {
  explicit accepting_story(std::uint32_t limit = 1) : pool_story(options(limit)) {}
  static pool_options options(std::uint32_t limit) {
    return with(usual(limit), [](pool_options& o) {
      o.accepts = true;
      o.wall_offset = 1h;
    });
  }
};

/// s1 is another's and holds. s2 is ours and waits.
struct waiting : accepting_story {
  waiting() {
    record_becomes(others_join());
    look(1);
    run();
  }
  /// Others hand the slot to us, after so long.
  lines granted_after(duration wait) {
    after(wait);
    leaves("s1");
    others_grant("s2", "s2");
    return watched();
  }
};

/// Another process holds slot s1 by a grant of ours that it has not accepted, and s3 waits behind it.
struct granting : accepting_story {
  granting() {
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
  BOOST_TEST(words_in(consul.get("p/" + real("s1"))->value).lease->accepts);
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
  BOOST_TEST(consul.get("p/.accepted/" + real("s2")).has_value());
  const std::string write = last_of(release('A'));
  BOOST_TEST(write.find("unaccept s2 | remove s2") != std::string::npos, write);
  run();
  BOOST_TEST(!consul.get("p/.accepted/" + real("s2")).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_grant_that_nobody_accepts_is_taken_back_and_goes_to_the_next, granting) {
  BOOST_REQUIRE(record() == "{" + other + "}");
  go_on(3700ms);
  BOOST_TEST(record() == "{" + other + "}");
  go_on(200ms);
  BOOST_TEST(record() == "{" + next + "}");
  BOOST_TEST(entries().find(other) == std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(what_is_accepted_is_not_taken_back, granting) {
  const std::string key = "p/.accepted/" + real(other);
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  go_on(20s);
  BOOST_TEST(record() == "{" + other + "}");
}

/// Nobody watches it any more. One read shows that it was accepted.
BOOST_FIXTURE_TEST_CASE(before_a_grant_is_taken_back_it_is_looked_at, granting) {
  const std::string key = "p/.accepted/" + real(other);
  BOOST_TEST(consul.transact({{kv_verb::lock, key, "", 0, 0, real(other)}}, now).applied);
  const std::size_t before = requests;
  go_on(4s);
  BOOST_TEST(requests == before + 1);
}

/// Its session has ended with its node, and takes the acceptance along: whoever held it is spared as any holder.
BOOST_FIXTURE_TEST_CASE(what_was_accepted_unseen_and_has_ended_since_is_not_taken_back, granting) {
  after(3700ms);
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

BOOST_AUTO_TEST_CASE(short_sessions_accept_nothing) {
  BOOST_TEST(!acceptance_of(1s).has_value());
  const acceptance_times usual = *acceptance_of(15s);
  BOOST_TEST((usual.fresh == 1s && usual.within == 2500ms && usual.slack == 300ms));
}

BOOST_AUTO_TEST_SUITE_END()

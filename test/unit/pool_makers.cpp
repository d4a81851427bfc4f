// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>

#include "support/pool_story.hpp"

// Slots of processes that are certainly gone (`gone_makers`). pool_story.hpp says how to read the core's actions.

namespace {

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

pool_options watching(pool_options o = pool_story::usual()) {
  o.watch_makers = 1s;
  return o;
}

struct makers_story : pool_story {
  explicit makers_story(pool_options o = watching()) : pool_story(std::move(o)) {}

  /// Another process, with session s1, holds, and we wait.
  void wait_behind_another() {
    others_join();
    record_becomes("s1", 1);
    hold();
    run();
    BOOST_REQUIRE(entries() == "s1 s2");
  }
  lines maker_is_gone(const std::string& session) { return tell(event::maker_gone{real(session)}); }
  bool exists(const std::string& session) const { return consul.has_session(real(session)); }
};

struct mutex_makers : makers_story {
  mutex_makers() : makers_story(watching(usual_mutex())) {}
};

struct delayed_makers : makers_story {
  delayed_makers() : makers_story(with(watching(), [](pool_options& o) { o.gone_delay = 700ms; })) {}
};

/// We wait at the end of a queue that is too long to watch everything.
struct crowded_makers : makers_story {
  crowded_makers()
      : makers_story(with(watching(), [](pool_options& o) {
          o.own_watch = o.own_watch_each = 10s;
          o.watch_all_max = 0;
        })) {
    for (int i = 0; i != 3; ++i) others_join();
    record_becomes("s1", 1);
    hold();
    run();
    BOOST_REQUIRE(entries() == "s1 s2 s3 s4");
    others_join();
    go_on();
  }
  std::size_t reads_in(duration d) {
    std::size_t sum = 0;
    for (const time_point end = now + d; now < end;) sum += times(go_on(10ms), "read");
    return sum;
  }
};

struct patient_makers : makers_story {
  patient_makers() : makers_story(with(watching(usual(2)), [](pool_options& o) { o.watch_makers = 1h; })) {}
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_makers, makers_story)

BOOST_AUTO_TEST_CASE(makers_are_watched_while_somebody_waits_for_another_process) {
  others_join();
  record_becomes("s1", 1);
  BOOST_TEST(says(acquire(1), "watch makers"));
  run();
  BOOST_TEST(times(go_on(5s), "no makers") == 0u);
  cancel(1);
  run();
  BOOST_TEST(times(go_on(900ms), "no makers") == 0u);  // the next acquire may come soon
  BOOST_TEST(times(go_on(200ms), "no makers") == 1u);
  BOOST_TEST(says(acquire(2), "watch makers"));
}

BOOST_FIXTURE_TEST_CASE(nobody_is_watched_without_a_run_directory, pool_story) {
  others_join();
  record_becomes("s1", 1);
  BOOST_TEST(!says(acquire(1), "watch makers"));
}

BOOST_AUTO_TEST_CASE(nobody_is_watched_while_users_of_this_process_hold_all_slots) {
  hold();
  run();
  go_on(2s);
  BOOST_TEST(!says(acquire(2), "watch makers"));
  BOOST_TEST(times(go_on(2s), "watch makers") == 0u);
}

BOOST_AUTO_TEST_CASE(one_write_frees_the_slot_and_takes_it_and_then_the_session_ends) {
  wait_behind_another();
  EXPECT(maker_is_gone("s1"), "txn #4: cas @13 {s2} | grant s2 us @15 +1 | remove s1 | unaccept s1");
  BOOST_TEST(freed_by_proof == 0u);
  const lines all = run();
  BOOST_TEST(freed_by_proof == 1u);
  BOOST_TEST(says(all, "grant t1"));
  BOOST_TEST(says(all, "destroy s1"));
  BOOST_TEST(!exists("s1"));
  BOOST_TEST(record() == "{s2}");
  BOOST_TEST(entries() == "s2");
}

BOOST_FIXTURE_TEST_CASE(a_mutex_is_unlocked_so_no_lock_delay_starts, mutex_makers) {
  others_join();
  consul.transact({{kv_verb::lock, "p/.lock", "other", mutex_flags, 0, real("s1")}}, now);
  hold();
  run();
  EXPECT(maker_is_gone("s1"),
         "txn #4: if @13 | let go s1 other | take s2 us | grant s2 us @15 +1 | remove s1 | unaccept s1");
  BOOST_TEST(says(run(), "grant t1"));
  BOOST_TEST(!exists("s1"));
}

BOOST_FIXTURE_TEST_CASE(a_lock_delay_of_the_user_is_kept, delayed_makers) {
  wait_behind_another();
  EXPECT(maker_is_gone("s1"));
  BOOST_TEST(!says(go_on(690ms), "grant"));
  BOOST_TEST(says(go_on(20ms), "grant t1"));
}

BOOST_AUTO_TEST_CASE(a_slot_that_is_only_tried_for_is_had_if_the_proof_comes_first) {
  others_join();
  record_becomes("s1", 1);
  try_acquire(1);
  maker_is_gone("s1");
  BOOST_TEST(says(run(), "grant t1"));
}

BOOST_AUTO_TEST_CASE(the_session_of_another_lock_costs_nothing) {
  wait_behind_another();
  const std::string elsewhere = consul.create_session(1h, now);
  const std::size_t before = requests;
  tell(event::maker_gone{elsewhere});
  run();
  BOOST_TEST(requests == before);
  BOOST_TEST(consul.has_session(elsewhere));
  BOOST_TEST(times(go_on(2s), "read") == 0u);
}

BOOST_AUTO_TEST_CASE(a_session_whose_end_fails_is_ended_again) {
  wait_behind_another();
  maker_is_gone("s1");
  done();
  destroyed(false);
  BOOST_TEST(says(go_on(2s), "destroy s1"));
  BOOST_TEST(!exists("s1"));
}

BOOST_AUTO_TEST_CASE(our_own_sessions_are_not_gone) {
  hold();
  run();
  const std::string before = entries();
  EXPECT(maker_is_gone("s1"));
  BOOST_TEST(entries() == before);
}

BOOST_FIXTURE_TEST_CASE(in_a_crowd_a_dead_holder_is_removed_at_once, crowded_makers) {
  maker_is_gone("s1");
  BOOST_TEST(reads_in(50ms) == 1u);
  BOOST_TEST(record() == "{s2}");
  BOOST_TEST(reads_in(2s) == 0u);
}

/// The dead process may have had a longer TTL than this one.
BOOST_FIXTURE_TEST_CASE(the_proof_is_kept_as_long_as_the_session_is_there, patient_makers) {
  others_join();
  others_join();
  record_becomes("s1 s2", 2);
  hold();
  run();
  cancel(1);
  run();
  maker_is_gone("s1");
  go_on(10 * pool_story::usual().ttl);
  acquire(2);
  BOOST_TEST(says(run(), "grant t2"));
}

BOOST_AUTO_TEST_SUITE_END()

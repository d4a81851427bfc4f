// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <variant>
#include <vector>

#include "protocol/core/contradictions.hpp"
#include "protocol/pool/consuls_in_turn.hpp"
#include "support/pool_story.hpp"

// Answers that cannot all be true. `integration.contradictions` has them on a real agent.

namespace {

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

/// The contradictions of one lock, and what they write into the log.
struct counted {
  context ctx{1};
  contradiction_news news{"k"};
  contradictions all;
  time_point now{1h};
  std::vector<log_kind> log;

  /// Returns the pause after one more.
  duration found() {
    step([&] { all.found(ctx, news, "something does not add up"); });
    return std::max(all.retry_at(), now) - now;
  }
  void none() {
    step([&] { all.none(ctx, news); });
  }
  template <class Step>
  void step(Step what) {
    core_actions out;
    ctx.begin(now += 10s, out);
    what();
    for (const core_action& each : out) log.push_back(std::get<action::note>(each).kind);
    ctx.end();
  }
};

bool has(const pool_story::lines& all, std::string_view beginning) {
  return std::any_of(all.begin(), all.end(), [&](const std::string& each) { return each.starts_with(beginning); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_contradictions)

BOOST_AUTO_TEST_CASE(the_pauses_double_and_the_log_tells_from_the_tenth_on) {
  counted c;
  BOOST_TEST((c.found() == 0ns));  // it may have a good reason
  for (int i = 2; i != 10; ++i) {
    const duration most = 2ms * (1 << (i - 2)), pause = c.found();
    BOOST_TEST((pause >= most / 2 && pause <= most), "after " << i);
    BOOST_TEST(c.log.empty());
  }
  c.found();
  BOOST_TEST((c.log == std::vector{log_kind::answers_contradict}));
  for (int i = 11; i != 40; ++i) BOOST_TEST((c.found() <= 1s));
  BOOST_TEST((c.found() >= 500ms));
  BOOST_TEST(c.log.size() == 3u);  // after 10, 20 and 40
  c.none();
  BOOST_TEST((c.log.back() == log_kind::answers_agree));
  c.none();
  BOOST_TEST(c.log.size() == 4u);
  BOOST_TEST((c.found() == 0ns));
}

BOOST_AUTO_TEST_CASE(a_later_pool_goes_on_from_there) {
  counted c;
  c.step([&] { c.all.go_on_from(c.ctx, c.news, 12, c.now); });
  BOOST_TEST((c.all.retry_at() >= c.now + 500ms));
  for (int i = 13; i != 20; ++i) c.found();
  BOOST_TEST(c.log.empty());
  c.found();
  BOOST_TEST((c.log == std::vector{log_kind::answers_contradict}));
  counted other;
  other.step([&] { other.all.go_on_from(other.ctx, other.news, 0, other.now); });
  BOOST_TEST(other.all.count() == 0u);
  other.step([&] { other.all.go_on_from(other.ctx, other.news, 12, other.now - 11s); });
  BOOST_TEST(other.all.count() == 0u, "that was too long ago");
}

/// A proxy has kept the listing. Somebody else may have the slot by now.
BOOST_AUTO_TEST_CASE(a_released_slot_is_not_granted_because_a_read_shows_it_again) {
  pool_story s;
  s.hold();
  event::prefix_listed kept{.id = 0, .listing = s.consul.list("p/")};
  s.go('A');
  s.try_acquire(2);
  s.refused({{0, event::refusal::conflict}});
  kept.index = s.consul.store.raft_index() + 1;
  const auto then = s.listed_late(kept);
  BOOST_TEST(!has(then, "grant"), then.front());
  BOOST_TEST(has(then, "destroy s1"));
  for (int i = 0; i != 4; ++i) {
    s.run();
    s.after(30ms);
  }
  BOOST_TEST(s.record() == "{s2}");
}

/// While our write is pending, a listing lacks another holder, and its record is older than the one that our write
/// replaces. That holder is not dead.
BOOST_AUTO_TEST_CASE(a_listing_that_hides_a_holder_is_not_believed_after_our_write) {
  pool_story s(pool_story::usual(3));
  s.hold();
  const auto kept = s.consul.list("p/");
  const std::string other = s.others_join();
  s.others_grant("s1 " + other, other);
  s.run();
  s.after(1s);
  s.watched();
  s.after(1s);
  s.release('A');
  BOOST_REQUIRE((s.txn_open() && s.watch_open()));
  s.watch_says(kept, s.consul.store.raft_index());
  s.done();
  BOOST_TEST(s.record() == "{" + other + "}");
  s.come(2);
  BOOST_TEST(s.record().find(other) != std::string::npos, s.record());
}

namespace {

/// We hold the slot, another contender waits for it, and our write of a release is refused for this reason, while a
/// read shows the same as before. Returns how many contradictions that makes.
unsigned contradictions_of(event::refused_operation why) {
  pool_story s;
  s.hold();
  s.others_join();
  s.run();
  s.tell(event::tick{});
  s.jump(20s);  // the watch of everything is answered
  s.run();
  s.release('A');
  BOOST_REQUIRE(s.txn_open());
  s.refused({why});
  s.run(false);
  return s.pool().status().trust.contradictions;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_of_others_that_has_ended_must_be_missing_in_later_reads) {
  BOOST_TEST(contradictions_of({0, event::refusal::conflict}) == 1u);
  BOOST_TEST(contradictions_of({1, event::refusal::invalid_session}) == 1u);
  BOOST_TEST(contradictions_of({1, event::refusal::lock_delay}) == 0u);
}

/// Two things are found, and one of them is over.
BOOST_AUTO_TEST_CASE(they_agree_when_nothing_is_left) {
  counted c;
  contradictions other;
  for (int i = 0; i != 10; ++i) c.found();
  c.step([&] { other.go_on_from(c.ctx, c.news, 10, c.now); });
  c.none();
  BOOST_TEST((c.log == std::vector{log_kind::answers_contradict}));
  c.step([&] { other.none(c.ctx, c.news); });
  BOOST_TEST((c.log == std::vector{log_kind::answers_contradict, log_kind::answers_agree}));
}

namespace {

/// The reads of one lock key, by its CreateIndex.
struct turning {
  context ctx{1};
  contradiction_news news{"k"};
  consuls_in_turn turns;
  pool_options options;
  time_point now{1h};
  std::vector<log_kind> log;

  turning() { options.ttl = 15s; }
  bool saw(std::uint64_t created) { return saw(created, ctx.new_request()); }
  bool saw(std::uint64_t created, request_id asked) {
    return step([&] { return turns.saw(ctx, news, created, asked, options); });
  }
  bool check() {
    return step([&] { return turns.check(ctx, news); });
  }
  template <class Step>
  bool step(Step what) {
    core_actions out;
    ctx.begin(now += 100ms, out);
    const bool result = what();
    for (const core_action& each : out) log.push_back(std::get<action::note>(each).kind);
    ctx.end();
    return result;
  }
};

}  // namespace

/// Two Consuls answer in turn. Each has a lock key of its own.
BOOST_AUTO_TEST_CASE(a_key_that_comes_back_three_times_is_that_of_another_consul) {
  turning t;
  for (const std::uint64_t each : {7, 7, 12, 7, 12}) BOOST_TEST(!t.saw(each));
  BOOST_TEST(t.log.empty());
  BOOST_TEST(!t.turns.stands());
  BOOST_TEST(t.saw(7));
  BOOST_TEST((t.log == std::vector{log_kind::answers_contradict}));
  BOOST_TEST((t.turns.until() == t.now + 15s));
  t.now += 11s;
  BOOST_TEST(t.saw(12));
  BOOST_TEST((t.turns.until() == t.now + 15s));
  t.now += 15s;
  BOOST_TEST(t.check(), "only a read can tell");
  BOOST_TEST(t.turns.stands());
  BOOST_TEST(!t.saw(12));
  t.now += 1s;
  BOOST_TEST(!t.check());
  BOOST_TEST(!t.turns.stands());
  BOOST_TEST((t.log == std::vector{log_kind::answers_contradict, log_kind::answers_agree}));
}

BOOST_AUTO_TEST_CASE(a_later_pool_goes_on_to_distrust) {
  turning t;
  t.step([&] { return t.turns.go_on(t.ctx, t.news, t.now + 5s), true; });
  BOOST_TEST(t.turns.stands());
  BOOST_TEST(!t.saw(7));
  BOOST_TEST(t.saw(12));
  BOOST_TEST(t.log.empty());
  t.turns = {};
  t.step([&] { return t.turns.go_on(t.ctx, t.news, t.now - 1s), true; });
  BOOST_TEST(!t.turns.stands());
}

/// A restored snapshot brings a key back. So do, later, another one, and a reply that comes late.
BOOST_AUTO_TEST_CASE(a_restored_snapshot_is_no_other_consul) {
  turning t;
  for (int i = 0; i != 5; ++i) {
    t.saw(7);
    t.saw(0);
    const request_id late = t.ctx.new_request();
    t.saw(static_cast<std::uint64_t>(20 + i));
    t.saw(7, late);
    t.now += 11s;
  }
  BOOST_TEST(!t.turns.stands());
  BOOST_TEST(t.log.empty());
}

/// An operator deletes what stands there, three times. Nothing waits for that.
BOOST_AUTO_TEST_CASE(deletions_by_an_operator_delay_nothing) {
  pool_story s;
  s.hold();
  for (char slot = 'A'; slot != 'D'; ++slot) {
    s.after(1s);
    s.run();
    BOOST_TEST(s.pool().status().trust.contradictions == 0u);  // a watch has shown our write
    s.consul.remove_tree("p/", s.now);
    s.after(1s);
    s.run();
    BOOST_TEST((s.pool().status().trust.contradictions <= 1u));
    s.release(slot);
    s.come(static_cast<std::uint64_t>(slot));
    BOOST_TEST(s.record() != "none");
  }
}

BOOST_AUTO_TEST_SUITE_END()

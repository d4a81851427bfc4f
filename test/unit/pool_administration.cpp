#include <boost/test/unit_test.hpp>
#include <chrono>

#include "protocol/administration.hpp"
#include "protocol/pool.hpp"
#include "protocol/succession.hpp"
#include "support/pool_story.hpp"

// What a pool makes of an operator's orders: see pool_story.hpp for how its answers read.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

instruction close_it(const inspection& s) { return set_closed(s, true); }
instruction open_it(const inspection& s) { return set_closed(s, false); }

auto resize_to(std::uint32_t limit) {
  return [limit](const inspection& s) { return resize(s, limit); };
}

/// Each acquire of it waits at once at what others hold, and watches no more than it must.
pool_options with_recorded_limit(std::uint32_t limit, bool few = true) {
  pool_options o = pool_story::usual(limit);
  o.use_recorded_limit = true;
  if (!few) o.watch_all_max = 0;
  return o;
}

struct administered : pool_story {
  using pool_story::pool_story;

  /// All that it says until Consul has nothing to answer any more, in the next moment.
  lines soon() {
    lines all = after(10ms);
    for (std::string& each : run()) all.push_back(std::move(each));
    return all;
  }
  lines give_back(char slot) {
    lines all = release(slot);
    for (std::string& each : soon()) all.push_back(std::move(each));
    return all;
  }
  void revoke_it(const std::string& session) {
    order([id = real(session)](const inspection& s) { return holdfast::protocol::revoke(s, id); });
  }
};

std::size_t granted_in(const pool_story::lines& list) {
  return static_cast<std::size_t>(
      std::count_if(list.begin(), list.end(), [](const std::string& each) { return each.starts_with("grant t"); }));
}

bool has_line(const pool_story::lines& list, std::string_view begin) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& each) { return each.starts_with(begin); });
}

std::string all_of(const pool_story::lines& list) {
  std::string text;
  for (const std::string& each : list) text += each + "\n";
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pool_administration)

// --- Closed

BOOST_AUTO_TEST_CASE(a_closed_semaphore_grants_nobody_and_whoever_waits_keeps_waiting) {
  for (const bool few : {true, false}) {
    administered s(with_recorded_limit(1, few));
    s.hold();
    s.acquire(2);
    s.order(close_it);
    BOOST_TEST(granted_in(s.soon()) == 0u);
    auto said = s.give_back('A');
    BOOST_TEST(has_line(said, "released A"), all_of(said));
    BOOST_TEST(granted_in(said) == 0u);
    BOOST_TEST(s.value() == R"({"Limit":1,"Holders":{},"Closed":true})");
    BOOST_TEST(s.entries() == "s1");
    said = s.after(3s);
    BOOST_TEST(granted_in(said) == 0u);
    BOOST_TEST(!has_line(said, "fail"));
    s.run();
    s.order(open_it);
    said = s.run();
    BOOST_TEST(has_line(said, "grant t2"), all_of(said));
    BOOST_TEST(s.value().find("Closed") == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_look_at_a_closed_semaphore_finds_nothing_free) {
  administered s;
  s.order([](const inspection& v) { return create(v, 1); });
  s.order(close_it);
  s.try_acquire(1);
  BOOST_TEST(has_line(s.soon(), "deny t1"));
}

BOOST_AUTO_TEST_CASE(whoever_comes_while_it_is_closed_queues) {
  administered s;
  s.order([](const inspection& v) { return create(v, 1); });
  s.order(close_it);
  s.acquire(1);
  auto said = s.soon();
  BOOST_TEST(granted_in(said) == 0u);
  BOOST_TEST(s.entries() == "s1");
  BOOST_TEST(s.record() == "{}");
  const std::size_t before = s.requests;
  s.after(1s);
  s.run();
  BOOST_TEST(s.requests - before <= 3u);  // it does not ask again and again
  s.order(open_it);
  BOOST_TEST(has_line(s.run(), "grant t1"));
}

BOOST_AUTO_TEST_CASE(what_is_kept_for_the_next_goes_back_when_it_is_closed) {
  pool_options o = pool_story::usual();
  o.slot_idle_timeout = 1h;
  administered s(o);
  s.hold();
  s.release('A');
  BOOST_TEST(s.record() == "{s1}");
  s.soon();
  s.order(close_it);
  s.soon();
  BOOST_TEST(s.record() == "{}");
  BOOST_TEST(s.value().find(R"("Closed":true)") != std::string::npos);
}

/// Other clients do not know the mark, and drop it.
BOOST_AUTO_TEST_CASE(a_record_that_is_written_without_the_mark_is_open) {
  administered s;
  s.hold();
  s.acquire(2);
  s.order(close_it);
  s.soon();
  s.give_back('A');
  BOOST_TEST(s.record() == "{}");
  s.record_becomes("");
  BOOST_TEST(has_line(s.soon(), "grant t2"));
}

// --- The limit

BOOST_AUTO_TEST_CASE(a_higher_limit_is_used_as_soon_as_it_is_seen) {
  for (const bool few : {true, false}) {
    administered s(with_recorded_limit(1, few));
    s.hold();
    s.acquire(2);
    s.acquire(3);
    s.acquire(4);
    s.soon();
    s.order(resize_to(3));
    const auto said = s.soon();
    BOOST_TEST(granted_in(said) == 2u, all_of(said));
    BOOST_TEST(s.pool().limit() == 3u);
    BOOST_TEST(s.value().starts_with(R"({"Limit":3,)"));
  }
}

BOOST_AUTO_TEST_CASE(a_lower_limit_takes_nothing_away_and_hands_nothing_on_until_there_is_room) {
  for (const bool few : {true, false}) {
    administered s(with_recorded_limit(3, few));
    for (std::uint64_t t = 1; t <= 5; ++t) s.acquire(t);
    s.run();
    BOOST_TEST(s.record() == "{s1 s2 s3}");
    s.order(resize_to(1));
    auto said = s.soon();
    BOOST_TEST(!has_line(said, "lose"));
    BOOST_TEST(s.pool().limit() == 1u);
    said = s.give_back('A');
    BOOST_TEST(has_line(said, "released A"), all_of(said));
    BOOST_TEST(granted_in(said) == 0u, all_of(said));
    said = s.give_back('B');
    BOOST_TEST(has_line(said, "released B"), all_of(said));
    BOOST_TEST(granted_in(said) == 0u, all_of(said));
    BOOST_TEST(s.record() == "{s3}");
    said = s.give_back('C');
    BOOST_TEST(granted_in(said) == 1u, all_of(said));
    BOOST_TEST(s.record().find(' ') == std::string::npos, s.record());
    s.give_back('D');
    BOOST_TEST(s.pool().status().waiting == 0u);
  }
}

BOOST_AUTO_TEST_CASE(those_who_use_the_recorded_limit_take_what_they_find) {
  administered s(with_recorded_limit(1));
  s.record_becomes(s.others_join(), 3);
  s.acquire(1, 2);
  const auto said = s.soon();
  BOOST_TEST(has_line(said, "grant t1"), all_of(said));
  BOOST_TEST(s.pool().limit() == 3u);
  BOOST_TEST(s.value().starts_with(R"({"Limit":3,)"));
}

BOOST_AUTO_TEST_CASE(even_one_that_nobody_lives_by) {
  administered s(with_recorded_limit(2));
  s.record_becomes("s7", 1);
  s.acquire(1, 2);
  BOOST_TEST(has_line(s.soon(), "fail t1 the number of slots is 0 or over the limit"));
  s.acquire(2);
  s.soon();
  BOOST_TEST(s.value().starts_with(R"({"Limit":1,)"));
}

BOOST_AUTO_TEST_CASE(a_limit_that_nobody_could_be_configured_with_is_not_used) {
  administered s(with_recorded_limit(2));
  s.record_becomes(s.others_join(), limit_max + 1);
  s.acquire(1);
  BOOST_TEST(has_line(s.soon(), "fail t1 the semaphore is in use with another limit"));
}

BOOST_AUTO_TEST_CASE(whether_there_are_enough_slots_is_looked_up) {
  administered s(with_recorded_limit(2));
  s.hold();
  s.acquire(2, 3);
  BOOST_TEST(has_line(s.soon(), "fail t2 the number of slots is 0 or over the limit"));
  s.give_back('A');
  s.order(resize_to(3));
  s.acquire(3, 3);  // it cannot know yet
  BOOST_TEST(has_line(s.soon(), "grant t3"));
}

BOOST_AUTO_TEST_CASE(more_slots_than_a_lower_limit_has_block_nobody) {
  administered s(with_recorded_limit(3));
  s.record_becomes(s.others_join(), 3);
  s.acquire(1, 3);
  s.acquire(2);
  BOOST_TEST(granted_in(s.soon()) == 0u);
  s.order(resize_to(2));
  const auto said = s.soon();
  BOOST_TEST(has_line(said, "fail t1 the number of slots is 0 or over the limit"), all_of(said));
  BOOST_TEST(has_line(said, "grant t2"), all_of(said));
}

BOOST_AUTO_TEST_CASE(those_who_do_not_use_the_recorded_limit_keep_what_they_hold_and_get_no_more) {
  administered s(pool_story::usual(2));
  s.acquire(1);
  s.acquire(2);
  s.run();
  s.acquire(3);
  s.order(resize_to(1));
  auto said = s.soon();
  BOOST_TEST(!has_line(said, "lose"));
  said = s.give_back('A');
  BOOST_TEST(has_line(said, "fail t3 the semaphore is in use with another limit"), all_of(said));
  BOOST_TEST(s.value().starts_with(R"({"Limit":1,)"));
  BOOST_TEST(s.record() == "{s2}");
}

// --- Revoked

BOOST_AUTO_TEST_CASE(a_holder_is_told_once_that_its_slot_is_wanted) {
  for (const bool few : {true, false}) {
    pool_options o = pool_story::usual(2);
    if (!few) o.watch_all_max = 0;
    administered s(o);
    s.hold();
    if (!few)
      for (int i = 0; i < 6; ++i) s.others_join();
    s.soon();
    BOOST_TEST((few ? s.watch_open() : s.key_watch_open()));
    s.revoke_it("s1");
    auto said = s.run();
    BOOST_TEST(has_line(said, "revoke A"), all_of(said));
    BOOST_TEST(!has_line(said, "lose"));
    said = s.after(3s);
    BOOST_TEST(!has_line(said, "revoke"));
    s.give_back('A');
    BOOST_TEST(s.value().find("Revoked") == std::string::npos, s.value());
  }
}

BOOST_AUTO_TEST_CASE(a_slot_that_is_wanted_back_does_not_go_from_hand_to_hand) {
  administered s;
  s.hold();
  s.acquire(2);
  const std::string other = s.others_join();
  s.soon();
  s.revoke_it("s1");
  s.soon();
  const auto said = s.give_back('A');
  BOOST_TEST(granted_in(said) == 0u, all_of(said));
  BOOST_TEST(s.record() == "{" + other + "}");
  BOOST_TEST(s.entries() == other + " s1");
}

BOOST_AUTO_TEST_CASE(every_write_keeps_the_marks_of_the_other_holders) {
  administered s(pool_story::usual(2));
  const std::string other = s.others_join();
  s.record_becomes(other);
  s.acquire(1);
  s.soon();
  s.revoke_it(other);
  s.order(close_it);
  s.soon();
  s.give_back('A');
  BOOST_TEST(s.value() == R"({"Limit":2,"Holders":{")" + s.real(other) + R"(":true},"Closed":true,"Revoked":{")" +
                              s.real(other) + R"(":true}})");
}

BOOST_AUTO_TEST_CASE(one_session_of_several_is_enough) {
  administered s(pool_story::usual(2));
  s.acquire(1, 2);
  s.run();
  s.soon();
  s.revoke_it("s2");
  s.revoke_it("s1");
  const auto said = s.run();
  BOOST_TEST(std::count(said.begin(), said.end(), "revoke A") == 1);
}

BOOST_AUTO_TEST_CASE(who_is_evicted_has_lost_its_slot) {
  administered s;
  s.hold();
  s.soon();
  const auto evict_it = [&](const inspection& v) { return evict(v, s.real("s1"), false); };
  s.order(evict_it);
  s.order(evict_it);
  BOOST_TEST(s.record() == "{}");
  BOOST_TEST(has_line(s.run(), "lose A session_invalidated"));
}

// --- Since when

BOOST_AUTO_TEST_CASE(entries_say_since_when_they_stand_there) {
  pool_options o = pool_story::usual();
  o.wall_offset = 1'700'000'000s;
  administered s(o);
  s.hold();
  const auto value = [&] { return s.consul.get("p/" + s.real("s1"))->value; };
  const auto seconds = [](time_point at) {
    return 1'700'000'000s + std::chrono::floor<std::chrono::seconds>(at.time_since_epoch());
  };
  const std::string first = value();
  BOOST_TEST(words_in(first).description == "us");
  BOOST_TEST((words_in(first).since_1970 == seconds(s.now)));
  s.others_join();
  s.acquire(2);
  s.soon();
  s.after(5s);
  const time_point again = s.now;
  s.give_back('A');  // joins anew, and later
  const std::string second = value();
  BOOST_TEST((words_in(second).since_1970 == seconds(again)));
}

BOOST_AUTO_TEST_CASE(who_comes_next_is_understood_behind_a_stamp) {
  pool_options o = pool_story::usual();
  o.wall_offset = 1'700'000'000s;
  o.watch_all_max = 0;
  o.own_watch = 1h;
  administered s(o);
  const std::string holder = s.others_join();
  s.record_becomes(holder);
  s.acquire(1);
  s.run();
  const std::string next = s.others_join();
  s.others_grant("s2", "s2", next);
  const std::size_t before = s.requests;
  const auto said = s.run();
  BOOST_TEST(has_line(said, "grant t1"), all_of(said));
  s.release('A');
  s.run();
  BOOST_TEST(s.record() == "{" + next + "}");
  BOOST_TEST(s.requests - before <= 2u);  // no look at the queue
}

BOOST_AUTO_TEST_SUITE_END()

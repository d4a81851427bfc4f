// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "protocol/administration/administration.hpp"
#include "protocol/pool/pool.hpp"
#include "protocol/record/entry_value.hpp"
#include "support/pool_story.hpp"

// How a pool reacts to an operator's orders. pool_story.hpp says how to read its actions.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

const std::string no_such_slots = "the number of slots is 0, over the limit or over 60";

/// Options with which a pool takes over the recorded limit. If `few` is false, it watches no more than it must.
pool_options with_recorded_limit(std::uint32_t limit, bool few = true) {
  return with(pool_story::usual(limit), [few](pool_options& o) {
    o.use_recorded_limit = true;
    if (!few) o.watch_all_max = 0;
  });
}

struct administered : pool_story {
  explicit administered(pool_options o = usual()) : pool_story(std::move(o)) {}

  lines give_back(char slot) {
    lines all = release(slot);
    append(all, go_on());
    return all;
  }
  void close_it(bool closed = true) {
    order([closed](const inspection& s) { return set_closed(s, closed); });
  }
  void open_it() { close_it(false); }
  void resize_to(std::uint32_t limit) {
    order([limit](const inspection& s) { return resize(s, limit); });
  }
  void revoke_it(const std::string& session) {
    order([id = real(session)](const inspection& s) { return holdfast::protocol::revoke(s, id, true); });
  }
};

/// Nobody holds a slot yet, and the record is closed.
struct created_closed : administered {
  created_closed() {
    order([](const inspection& v) { return create(v, 1); });
    close_it();
  }
};

void check(const pool_story::lines& list, std::string_view line, bool is_there = true) {
  std::string all;
  for (const std::string& each : list) all += each + "\n";
  BOOST_TEST(says(list, line) == is_there, line << (is_there ? " is missing:\n" : " is there:\n") << all);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_administration, administered)

// --- Closed

BOOST_AUTO_TEST_CASE(a_closed_semaphore_grants_nobody_and_whoever_waits_keeps_waiting) {
  for (const bool few : {true, false}) {
    administered s(with_recorded_limit(1, few));
    s.hold();
    s.acquire(2);
    s.close_it();
    check(s.go_on(), "grant", false);
    auto said = s.give_back('A');
    check(said, "released A");
    check(said, "grant", false);
    BOOST_TEST(s.value() == R"({"Limit":1,"Holders":{},"Closed":true})");
    BOOST_TEST(s.entries() == "s1");
    said = s.after(3s);
    check(said, "grant", false);
    check(said, "fail", false);
    s.run();
    s.open_it();
    check(s.run(), "grant t2");
    BOOST_TEST(s.value().find("Closed") == std::string::npos);
  }
}

BOOST_FIXTURE_TEST_CASE(whoever_comes_while_it_is_closed_queues_but_for_a_look_that_finds_nothing_free,
                        created_closed) {
  try_acquire(1);
  check(go_on(), "deny t1");
  acquire(2);
  check(go_on(), "grant", false);
  BOOST_TEST(entries() == "s1");
  BOOST_TEST(record() == "{}");
  const std::size_t before = requests;
  go_on(1s);
  BOOST_TEST(requests - before <= 3u);  // it does not ask again and again
  open_it();
  check(run(), "grant t2");
}

// --- The limit

BOOST_AUTO_TEST_CASE(a_higher_limit_is_used_as_soon_as_it_is_seen) {
  for (const bool few : {true, false}) {
    administered s(with_recorded_limit(1, few));
    s.hold();
    for (std::uint64_t t = 2; t <= 4; ++t) s.acquire(t);
    s.go_on();
    s.resize_to(3);
    BOOST_TEST(times(s.go_on(), "grant") == 2u);
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
    s.resize_to(1);
    check(s.go_on(), "lose", false);
    BOOST_TEST(s.pool().limit() == 1u);
    for (const char slot : {'A', 'B'}) {
      const auto said = s.give_back(slot);
      check(said, std::string("released ") + slot);
      check(said, "grant", false);
    }
    BOOST_TEST(s.record() == "{s3}");
    BOOST_TEST(times(s.give_back('C'), "grant") == 1u);
    BOOST_TEST(s.record().find(' ') == std::string::npos, s.record());
    s.give_back('D');
    BOOST_TEST(s.pool().status().waiting == 0u);
  }
}

BOOST_AUTO_TEST_CASE(those_who_use_the_recorded_limit_take_what_they_find_if_anybody_could_be_configured_with_it) {
  struct row {
    std::uint32_t recorded;
    bool is_in_use;
    std::uint32_t wanted;
    std::string answer;
  };
  for (const row& each : {row{3, true, 2, "grant t1"}, row{1, false, 2, "fail t1 " + no_such_slots},
                          row{limit_max + 1, true, 1, "fail t1 the semaphore is in use with another limit"}}) {
    administered s(with_recorded_limit(2));
    s.record_becomes(each.is_in_use ? s.others_join() : "s7", each.recorded);
    s.acquire(1, each.wanted);
    check(s.go_on(), each.answer);
    if (each.recorded <= limit_max) BOOST_TEST(s.pool().limit() == each.recorded);
    s.acquire(2);
    s.go_on();
    BOOST_TEST(s.value().starts_with("{\"Limit\":" + std::to_string(each.recorded) + ","));
  }
}

BOOST_AUTO_TEST_CASE(whether_there_are_enough_slots_is_looked_up) {
  administered s(with_recorded_limit(2));
  s.hold();
  s.acquire(2, 3);
  check(s.go_on(), "fail t2 " + no_such_slots);
  s.give_back('A');
  s.resize_to(3);
  s.acquire(3, 3);  // it cannot know yet
  check(s.go_on(), "grant t3");
}

BOOST_AUTO_TEST_CASE(more_slots_than_a_lower_limit_has_block_nobody) {
  administered s(with_recorded_limit(3));
  s.record_becomes(s.others_join(), 3);
  s.acquire(1, 3);
  s.acquire(2);
  check(s.go_on(), "grant", false);
  s.resize_to(2);
  const auto said = s.go_on();
  check(said, "fail t1 " + no_such_slots);
  check(said, "grant t2");
}

BOOST_AUTO_TEST_CASE(those_who_do_not_use_the_recorded_limit_keep_what_they_hold_and_get_no_more) {
  administered s(usual(2));
  s.acquire(1);
  s.come(2);
  s.acquire(3);
  s.resize_to(1);
  check(s.go_on(), "lose", false);
  check(s.give_back('A'), "fail t3 the semaphore is in use with another limit");
  BOOST_TEST(s.value().starts_with(R"({"Limit":1,)"));
  BOOST_TEST(s.record() == "{s2}");
}

// --- Revoked

BOOST_AUTO_TEST_CASE(a_holder_is_told_once_that_its_slot_is_wanted) {
  for (const bool few : {true, false}) {
    administered s(with(usual(2), [few](pool_options& o) {
      if (!few) o.watch_all_max = 0;
    }));
    s.hold();
    for (int i = 0; !few && i < 6; ++i) s.others_join();
    s.go_on();
    BOOST_TEST((few ? s.watch_open() : s.key_watch_open()));
    s.revoke_it("s1");
    const auto said = s.run();
    check(said, "revoke A");
    check(said, "lose", false);
    check(s.after(3s), "revoke", false);
    s.give_back('A');
    BOOST_TEST(s.value().find("Revoked") == std::string::npos, s.value());
  }
}

// --- Since when

BOOST_AUTO_TEST_CASE(entries_say_since_when_they_stand_there) {
  administered s(with(usual(), [](pool_options& o) { o.wall_offset = 1'700'000'000s; }));
  const auto value = [&] { return s.consul.get("p/" + s.real("s1"))->value; };
  const auto seconds = [](time_point at) {
    return 1'700'000'000s + std::chrono::floor<std::chrono::seconds>(at.time_since_epoch());
  };
  s.hold();
  const std::string first = value();
  BOOST_TEST(parse_entry_value(first).description == "us");
  BOOST_TEST((parse_entry_value(first).since_1970 == seconds(s.now)));
  s.others_join();
  s.acquire(2);
  s.go_on();
  s.after(5s);
  const time_point again = s.now;
  s.give_back('A');  // joins anew, and later
  const std::string second = value();
  BOOST_TEST((parse_entry_value(second).since_1970 == seconds(again)));
}

BOOST_AUTO_TEST_SUITE_END()

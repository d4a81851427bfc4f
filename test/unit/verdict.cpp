// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The judge of the cluster tests, on invented journals. It must find what is wrong with them.

#include "support/verdict.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/journal.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

protocol::time_point at(std::chrono::milliseconds time) { return protocol::time_point(time); }

/// Tells a story, with times in milliseconds.
class story {
public:
  story& asks(std::chrono::milliseconds time, const std::string& who) { return add(time, who, journal_event::asked); }
  story& enters(std::chrono::milliseconds time, const std::string& who, std::uint64_t token,
                std::chrono::milliseconds lease, const std::string& what = {}) {
    add(time, who, journal_event::enter, what);
    entries_.back().token = {token, 0};
    entries_.back().lease = at(lease);
    return *this;
  }
  story& extends(std::chrono::milliseconds time, const std::string& who, std::chrono::milliseconds lease) {
    add(time, who, journal_event::lease);
    entries_.back().lease = at(lease);
    return *this;
  }
  story& add(std::chrono::milliseconds time, const std::string& who, journal_event what, const std::string& words = {},
             int slot = 0) {
    journal_entry entry;
    entry.at = at(time);
    entry.who = who;
    entry.what = what;
    entry.slot = slot;
    entry.words = words;
    entries_.push_back(entry);
    return *this;
  }
  const std::vector<journal_entry>& entries() const { return entries_; }
  verdict judged(std::uint32_t limit, std::chrono::milliseconds bound = 1h) const {
    return judge(entries_, limit, bound);
  }

private:
  std::vector<journal_entry> entries_;
};

bool begins_with(const std::string& text, const std::string& what) { return text.rfind(what, 0) == 0; }

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(verdict)

BOOST_AUTO_TEST_CASE(turns_in_order_are_fine) {
  story s;
  s.asks(0ms, "a").enters(10ms, "a", 5, 2s).asks(20ms, "b").add(100ms, "a", journal_event::leave);
  s.enters(103ms, "b", 6, 3s).extends(700ms, "b", 4s).add(900ms, "b", journal_event::leave);
  const auto shown = s.judged(1, 50ms);
  BOOST_TEST(shown.violation == "");
  BOOST_TEST(shown.believers_max == 1u);
  BOOST_TEST(shown.entered == 2u);
  BOOST_TEST((shown.overlap == 0ns));
  BOOST_TEST((shown.longest().length == 10ms));
  BOOST_TEST(shown.longest().who == "a");
}

BOOST_AUTO_TEST_CASE(an_overlap_is_found_and_measured) {
  story s;
  s.asks(0ms, "a").enters(10ms, "a", 5, 2s).asks(20ms, "b").enters(1500ms, "b", 6, 3s);
  s.add(2500ms, "b", journal_event::leave);
  const auto shown = s.judged(1);
  BOOST_TEST(begins_with(shown.violation, "G1 "), shown.violation);
  BOOST_TEST(shown.believers_max == 2u);
  BOOST_TEST((shown.overlap == 500ms));  // until the lease of the first is over
}

BOOST_AUTO_TEST_CASE(a_lease_that_is_over_is_no_belief_though_nobody_has_written_so) {
  story s;
  s.asks(0ms, "a").enters(10ms, "a", 5, 2s).asks(20ms, "b").enters(2s, "b", 6, 4s);
  s.add(2500ms, "a", journal_event::lost, "lease_expired").add(3s, "b", journal_event::leave);
  const auto shown = s.judged(1);
  BOOST_TEST(shown.violation == "");
  BOOST_TEST(shown.lost == 1u);
}

BOOST_AUTO_TEST_CASE(a_lease_that_comes_back_to_life_is_found) {
  story s;
  s.asks(0ms, "a").enters(10ms, "a", 5, 1s).asks(20ms, "b").enters(1200ms, "b", 6, 4s).extends(1300ms, "a", 3s);
  BOOST_TEST(begins_with(s.judged(1).violation, "G1 "));
}

BOOST_AUTO_TEST_CASE(two_of_two_are_fine_and_a_third_is_not) {
  story s;
  for (const std::string who : {"a", "b", "c"}) s.asks(0ms, who);
  s.enters(10ms, "a", 5, 5s).enters(20ms, "b", 5, 5s);
  BOOST_TEST(s.judged(2).violation == "");
  s.enters(30ms, "c", 5, 5s);
  BOOST_TEST(begins_with(s.judged(2).violation, "G1 "));
  BOOST_TEST(s.judged(2).believers_max == 3u);
}

BOOST_AUTO_TEST_CASE(two_that_have_the_same_number_are_found) {
  const auto second = [](std::chrono::milliseconds enters, const std::string& number) {
    story s;
    s.asks(0ms, "a").asks(0ms, "b").enters(10ms, "a", 5, 100ms, "number 1").enters(enters, "b", 6, 300ms, number);
    return s.judged(2);
  };
  BOOST_TEST(second(50ms, "number 0").violation == "");
  BOOST_TEST(second(50ms, "number 1").violation == "G13 b has number 1, which a has");
  BOOST_TEST(second(101ms, "number 1").violation == "");
}

BOOST_AUTO_TEST_CASE(a_token_that_does_not_grow_is_found) {
  story s;
  s.asks(0ms, "a").enters(10ms, "a", 5, 2s).add(100ms, "a", journal_event::leave);
  s.asks(110ms, "b").enters(120ms, "b", 5, 2s);
  BOOST_TEST(begins_with(s.judged(1).violation, "G4 "));
}

BOOST_AUTO_TEST_CASE(waiting_for_a_free_slot_is_bounded) {
  story s;
  s.asks(0ms, "a").enters(0ms, "a", 5, 1s).asks(500ms, "b").enters(2s, "b", 6, 3s);
  BOOST_TEST((s.judged(1).longest().length == 1s));  // free since the lease was over, not since it was asked for
  BOOST_TEST(s.judged(1, 1s).violation == "");
  BOOST_TEST(begins_with(s.judged(1, 999ms).violation, "G5 "));
}

BOOST_AUTO_TEST_CASE(a_waiter_that_never_enters_is_found_at_the_end) {
  story s;
  s.asks(0ms, "a").add(3s, "a", journal_event::gone);
  BOOST_TEST(begins_with(s.judged(1, 2s).violation, "G5 "));
}

BOOST_AUTO_TEST_CASE(a_failed_acquire_does_not_start_the_wait_anew) {
  story s;
  s.asks(0ms, "a").add(900ms, "a", journal_event::failed, "no answer").asks(950ms, "a");
  s.add(1800ms, "a", journal_event::failed, "no answer").asks(1900ms, "a").enters(2s, "a", 5, 4s);
  const auto shown = s.judged(1, 1s);
  BOOST_TEST(begins_with(shown.violation, "G5 "));
  BOOST_TEST((shown.longest().length == 2s));
  BOOST_TEST(shown.failed == 2u);
}

BOOST_AUTO_TEST_CASE(faults_and_absence_start_the_wait_anew) {
  story s;
  s.asks(0ms, "a").add(800ms, "test", journal_event::fault, "leader killed");
  s.add(1600ms, "a", journal_event::away, "cut off").add(5s, "a", journal_event::back).enters(5500ms, "a", 5, 9s);
  const auto shown = s.judged(1, 900ms);
  BOOST_TEST(shown.violation == "");
  BOOST_REQUIRE(shown.waits.size() == 2u);
  BOOST_TEST((shown.waits[0].length == 800ms));
  BOOST_TEST((shown.waits[1].length == 800ms));
  BOOST_TEST(shown.waits[1].after == "leader killed");
}

BOOST_AUTO_TEST_CASE(who_was_killed_neither_believes_nor_waits) {
  story s;
  s.asks(0ms, "a").enters(0ms, "a", 5, 1h).add(0ms, "a", journal_event::asked, {}, 1);
  s.add(1s, "a", journal_event::gone, {}, -1).asks(2s, "b").enters(2s, "b", 6, 9s);
  const auto shown = s.judged(1, 1s);
  BOOST_TEST(shown.violation == "");
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_CASE(the_limit_is_the_one_in_force) {
  story s;
  s.asks(0ms, "a").enters(0ms, "a", 5, 1h).asks(0ms, "b").enters(0ms, "b", 6, 1h);
  s.add(1s, "test", journal_event::limit, "1", -1);
  BOOST_TEST(begins_with(s.judged(2).violation, "G1 2 believe that they hold, of 1"));
  story fewer;
  fewer.asks(0ms, "a").enters(0ms, "a", 5, 1h).asks(0ms, "b").add(1s, "test", journal_event::limit, "2", -1);
  fewer.enters(2s, "b", 6, 1h);
  BOOST_TEST(fewer.judged(1).violation == "");
  BOOST_TEST((fewer.judged(1).longest().length == 1s));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_found) {
  BOOST_TEST(begins_with(story().enters(0ms, "a", 5, 1s).judged(1).violation, "G8 "));
  BOOST_TEST(begins_with(story().extends(0ms, "a", 1s).judged(1).violation, "G9 "));
  BOOST_TEST(begins_with(story().add(0ms, "a", journal_event::lost).judged(1).violation, "G9 "));
  story shorter;
  shorter.asks(0ms, "a").enters(0ms, "a", 5, 2s).extends(10ms, "a", 1s);
  BOOST_TEST(begins_with(shorter.judged(1).violation, "G9 "));
}

BOOST_AUTO_TEST_CASE(lines_are_read_back_as_they_were_written) {
  journal_entry entry;
  entry.at = at(12345ms);
  entry.who = "worker-1";
  entry.what = journal_event::lost;
  entry.slot = 3;
  entry.token = {77, 2};
  entry.lease = holdfast::protocol::never;
  entry.words = "lease_expired, they say";
  BOOST_TEST(to_line(entry) == "12345000000 worker-1 lost 3 77.2 9223372036854775807 lease_expired, they say");
  BOOST_TEST((parse_journal_line(to_line(entry)) == entry));
  entry.words.clear();
  BOOST_TEST((parse_journal_line(to_line(entry)) == entry));
  for (const std::string wrong :
       {"", "1 a enter 0 5.0", "1 a enters 0 5.0 7 -", "x a enter 0 5.0 7 -", "1 a enter 0 5 7 -"})
    BOOST_TEST(!parse_journal_line(wrong).has_value(), wrong);
}

BOOST_AUTO_TEST_CASE(a_journal_of_several_writers_is_read_in_the_order_of_time) {
  const auto file = std::filesystem::temp_directory_path() / ("holdfast-verdict-" + std::to_string(std::rand()));
  std::filesystem::remove(file);
  {
    journal one(file), other(file);
    story s;
    s.asks(20ms, "late").asks(10ms, "early");
    one.write(s.entries()[0]);
    other.write(s.entries()[1]);
  }
  const auto read = read_journal(file);
  BOOST_REQUIRE(read.size() == 2u);
  BOOST_TEST(read[0].who == "early");
  std::ofstream(file, std::ios::app) << "half a li";
  BOOST_TEST(read_journal(file).size() == 2u);
  std::ofstream(file, std::ios::app) << "ne\n";
  BOOST_CHECK_THROW(read_journal(file), std::runtime_error);
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(the_picture_shows_belief_to_the_end_of_the_lease_and_who_was_away) {
  story s;
  s.asks(0ms, "a").enters(0ms, "a", 5, 1s).add(500ms, "test", journal_event::fault, "agent frozen");
  s.add(500ms, "a", journal_event::away, "behind it").add(2s, "a", journal_event::back);
  s.add(2s, "a", journal_event::lost, "lease_expired");
  const std::string svg = picture_of(s.entries(), "a test");
  for (const std::string part : {"a test", "agent frozen", "behind it", "token 5.0", "#d98a00"})
    BOOST_TEST(svg.find(part) != std::string::npos, part);
}

BOOST_AUTO_TEST_SUITE_END()

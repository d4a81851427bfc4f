// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/event_log.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(event_log)

namespace {

using namespace std::chrono_literals;
using holdfast::log_kind;
namespace asio = boost::asio;

struct listening {
  explicit listening(std::chrono::milliseconds window = 1h)
      : log(holdfast::lifetime::event_log::make(
            io.get_executor(), [this](const holdfast::log_event& event) { heard.push_back(event); }, window)) {}

  void add(const std::string& key, std::uint64_t token = 0) {
    log->add({.kind = log_kind::slot_lost, .key = key, .token = holdfast::fencing_token{token, 0}});
  }
  std::vector<holdfast::log_event>& run() {
    io.run();
    io.restart();
    return heard;
  }

  asio::io_context io;
  std::vector<holdfast::log_event> heard;
  std::shared_ptr<holdfast::lifetime::event_log> log;
};

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_function_there_is_no_log) {
  asio::io_context io;
  BOOST_TEST(!holdfast::lifetime::event_log::make(io.get_executor(), {}));
}

BOOST_FIXTURE_TEST_CASE(events_are_told_later_and_in_order, listening) {
  add("a");
  add("b");
  BOOST_TEST(heard.empty());
  BOOST_TEST_REQUIRE(run().size() == 2u);
  BOOST_TEST(heard[0].key == "a");
  BOOST_TEST(heard[1].key == "b");
}

BOOST_FIXTURE_TEST_CASE(a_storm_of_equal_events_is_left_out_and_counted, listening) {
  for (std::uint64_t i = 0; i < 1000; ++i) add("a", i);
  add("b");
  log->flush();
  BOOST_TEST_REQUIRE(run().size() == 12u);
  for (std::size_t i = 0; i < 10; ++i) BOOST_TEST(heard[i].left_out == 0u);
  BOOST_TEST(heard[10].key == "b");
  BOOST_TEST(heard[11].key == "a");
  BOOST_TEST(heard[11].token->grant == 999u);
  BOOST_TEST(heard[11].left_out == 989u);
  BOOST_TEST(heard[11].text().ends_with("equal events left out before: 989"));
}

BOOST_AUTO_TEST_CASE(what_was_left_out_is_told_when_the_time_is_over) {
  listening to(20ms);
  for (std::uint64_t i = 0; i < 12; ++i) to.add("a", i);
  BOOST_TEST_REQUIRE(to.run().size() == 11u);  // the timer keeps the context running
  BOOST_TEST(to.heard.back().left_out == 1u);
  to.add("a");
  BOOST_TEST(to.run().size() == 12u);
}

/// The end of the log shows the present state.
BOOST_FIXTURE_TEST_CASE(the_last_of_many_beginnings_and_ends_is_told_last, listening) {
  const auto watch = [&](bool fails) {
    log->add(
        {.kind = fails ? log_kind::watch_failed : log_kind::watch_restored, .key = "a", .cause = fails ? "why" : ""});
  };
  for (int i = 0; i < 20; ++i) watch(i % 2 == 0);
  watch(true);
  log->flush();
  BOOST_TEST_REQUIRE(run().size() == 11u);
  BOOST_TEST((heard.back().kind == log_kind::watch_failed));
  BOOST_TEST(heard.back().left_out == 10u);
}

BOOST_FIXTURE_TEST_CASE(slots_with_numbers_differ, listening) {
  for (std::uint32_t i = 0; i < 30; ++i) log->add({.kind = log_kind::slot_lost, .key = "a", .slot_number = i});
  BOOST_TEST(run().size() == 30u);
}

/// A later storm does not delay what an earlier one has left out.
BOOST_AUTO_TEST_CASE(each_storm_ends_at_its_own_time) {
  listening to(200ms);
  for (std::uint64_t i = 0; i < 10; ++i) to.add("a", i);
  asio::steady_timer(to.io, 100ms).wait();
  for (std::uint64_t i = 0; i < 11; ++i) to.add("b", i);
  to.add("a");
  to.run();
  BOOST_TEST_REQUIRE(to.heard.size() == 22u);
  BOOST_TEST(to.heard[20].key == "a");
  BOOST_TEST(to.heard[21].key == "b");
}

/// Many kinds of events do not take much memory, and none of them is lost.
BOOST_FIXTURE_TEST_CASE(events_that_differ_are_all_told, listening) {
  for (int i = 0; i < 1000; ++i) add(std::to_string(i));
  BOOST_TEST(run().size() == 1000u);
}

BOOST_FIXTURE_TEST_CASE(a_log_that_is_destroyed_tells_what_it_has_left_out, listening) {
  for (std::uint64_t i = 0; i < 20; ++i) add("a", i);
  log.reset();
  BOOST_TEST_REQUIRE(run().size() == 11u);
  BOOST_TEST(heard.back().left_out == 9u);
}

BOOST_AUTO_TEST_CASE(an_exception_leaves_through_run) {
  asio::io_context io;
  const auto log = holdfast::lifetime::event_log::make(
      io.get_executor(), [](const holdfast::log_event&) { throw std::runtime_error("the disk is full"); });
  log->add({.kind = log_kind::broker_alarm});
  BOOST_CHECK_THROW(io.run(), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_log_may_outlive_its_context) {
  auto io = std::make_unique<asio::io_context>();
  int told = 0;
  const auto log = holdfast::lifetime::event_log::make(io->get_executor(), [&](const holdfast::log_event&) { ++told; });
  for (int i = 0; i < 20; ++i) log->add({.kind = log_kind::broker_alarm});
  io.reset();
  log->add({.kind = log_kind::broker_alarm});
  log->flush();
  BOOST_TEST(told == 0);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/names.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "protocol/broker/broker_events.hpp"

using holdfast::error;
using holdfast::error_code;
using holdfast::protocol::slot_number_max;
using holdfast::rabbitmq::detail::check_name;
using holdfast::rabbitmq::detail::queue_names;
using holdfast::rabbitmq::detail::slot_queue;

BOOST_AUTO_TEST_SUITE(rabbitmq_names)

namespace {

void check_good(std::string_view name) {
  std::string_view cause;
  BOOST_TEST(!check_name(name, cause), '"' << name << "\": " << cause);
}

void check_bad(std::string_view name, std::string_view rule) {
  std::string_view cause;
  BOOST_TEST_CONTEXT("name \"" << name << '"') {
    BOOST_TEST(check_name(name, cause) == error::invalid_name);
    BOOST_TEST(cause.find(rule) != std::string_view::npos, cause);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(queues_are_named_as_the_description_has_them) {
  const queue_names names("reports");
  BOOST_TEST(names.of_slot(1, slot_queue::existence) == "reports-1-A");
  BOOST_TEST(names.of_slot(12, slot_queue::holder) == "reports-12-B");
  BOOST_TEST(names.of_slot(1000, slot_queue::token) == "reports-1000-F");
  BOOST_TEST(names.hints() == "reports-F");
  BOOST_TEST(names.mark() == "reports-0-F");
  BOOST_TEST(names.administration() == "reports");
}

BOOST_AUTO_TEST_CASE(the_letter_may_come_first) {
  const queue_names names("reports", true);
  BOOST_TEST(names.of_slot(1, slot_queue::existence) == "reports-A-1");
  BOOST_TEST(names.of_slot(12, slot_queue::holder) == "reports-B-12");
  BOOST_TEST(names.of_slot(3, slot_queue::token) == "reports-F-3");
  BOOST_TEST(names.hints() == "reports-F");
  BOOST_TEST(names.mark() == "reports-F-0");
}

BOOST_AUTO_TEST_CASE(usual_names_are_accepted) {
  for (const auto* each :
       {"reports", "a", "amq", "amq-1", "reports-1", "reports-A", "a-b-A", "a-1-C", "a-1-A-b", "a1A", "reports/daily",
        "Ber\xC3\xAD"
        "chte",
        "with space", "-", "1"})
    check_good(each);
}

BOOST_AUTO_TEST_CASE(the_size_is_limited_so_that_each_queue_fits) {
  const std::string largest(240, 'x');
  check_good(largest);
  BOOST_TEST(queue_names(largest).of_slot(slot_number_max, slot_queue::token).size() <= 255u);
  check_bad(largest + "x", "240 bytes");
  check_bad("", "empty");
}

BOOST_AUTO_TEST_CASE(a_name_is_a_line_of_utf_8) {
  check_bad("a\xFF", "UTF-8");
  check_bad("a\xC3", "UTF-8");
  check_bad("a\nb", "control");
  check_bad(std::string_view("a\0b", 3), "control");
  check_bad("a\x7F", "control");
  check_bad("a\xC2\x85", "control");  // C1
}

BOOST_AUTO_TEST_CASE(names_of_the_broker_are_refused) {
  check_bad("amq.", "reserves");
  check_bad("amq.reports", "reserves");
}

BOOST_AUTO_TEST_CASE(the_name_of_a_queue_is_refused) {
  for (const auto* each : {"a-1-A", "a-12-B", "a-1000-F", "a-A-1", "a-B-12", "a-F-3", "a-F", "a-1-F", "a-0-F", "a-F-0",
                           "a-1-2-A", "a-0-A", "a-01-B", "a-99999999999999999999-A", "-F", "-1-A"})
    check_bad(each, "queue of another semaphore");
}

BOOST_AUTO_TEST_CASE(no_queue_of_a_semaphore_is_a_legal_name) {
  for (const bool letter_first : {false, true}) {
    const queue_names names("a-b", letter_first);
    for (const slot_queue queue : {slot_queue::existence, slot_queue::holder, slot_queue::token})
      check_bad(names.of_slot(7, queue), "queue of another semaphore");
    check_bad(names.hints(), "queue of another semaphore");
  }
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/slot.hpp>
#include <set>
#include <sstream>
#include <string>

#include "second_copy/second_copy.hpp"

using holdfast::condition;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;

namespace {

error_code nth(int value) { return {value, holdfast::error_category()}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_errors)

BOOST_AUTO_TEST_CASE(each_error_has_a_text_of_its_own) {
  std::set<std::string> texts{nth(0).message()};
  for (const error each : holdfast::errors) texts.insert(error_code(each).message());
  BOOST_TEST(texts.size() == holdfast::errors.size() + 1);
  BOOST_TEST(nth(0).message() == "unknown holdfast error");
  BOOST_TEST(nth(static_cast<int>(holdfast::errors.size()) + 1).message() == nth(0).message());
}

BOOST_AUTO_TEST_CASE(enumerators_are_written_by_their_names) {
  std::ostringstream out;
  out << error::timed_out << ' ' << holdfast::loss_reason::lease_expired << ' ' << holdfast::slot_state::suspect << ' '
      << static_cast<error>(0);
  BOOST_TEST(out.str() == "timed_out lease_expired suspect unknown");
}

BOOST_AUTO_TEST_CASE(categories_are_named) {
  const error_code ec = error::timed_out;
  BOOST_TEST(ec.category().name() == "holdfast");
  BOOST_TEST(holdfast::make_error_condition(condition::misuse).category().name() == "holdfast.condition");
  BOOST_TEST(!holdfast::make_error_condition(condition::misuse).message().empty());
}

BOOST_AUTO_TEST_CASE(no_error_both_had_and_may_have_had_an_effect) {
  for (const error_code ec : holdfast::errors) {
    const bool says_nothing = ec == error::closed || ec == error::slot_lost;
    const int answers = (ec == condition::not_applied) + (ec == condition::outcome_unknown);
    BOOST_TEST(answers == (says_nothing ? 0 : 1), ec.message());
    if (ec == condition::misuse) BOOST_TEST((ec == condition::not_applied), ec.message());
  }
}

BOOST_AUTO_TEST_CASE(conditions_hold_for_what_the_header_says) {
  const auto holds = [](error e, condition c) { return error_code(e) == c; };
  BOOST_TEST(holds(error::unreachable, condition::unavailable));
  BOOST_TEST(holds(error::unreachable, condition::not_applied));
  BOOST_TEST(holds(error::too_busy, condition::unavailable));
  BOOST_TEST(holds(error::too_many_requests, condition::unavailable));
  BOOST_TEST(holds(error::timed_out, condition::unavailable));
  BOOST_TEST(holds(error::timed_out, condition::outcome_unknown));
  BOOST_TEST(holds(error::connection_lost, condition::unavailable));
  BOOST_TEST(holds(error::server_error, condition::unavailable));
  BOOST_TEST(holds(error::server_error, condition::outcome_unknown));
  BOOST_TEST(!holds(error::permission_denied, condition::unavailable));
  BOOST_TEST(holds(error::invalid_option, condition::misuse));
  BOOST_TEST(holds(error::invalid_name, condition::misuse));
  BOOST_TEST(holds(error::lease_conflict, condition::not_applied));
  BOOST_TEST(!holds(error::lease_conflict, condition::misuse));
  BOOST_TEST(!holds(error::invalid_session, condition::misuse));
  BOOST_TEST(holds(error::missing_node, condition::not_applied));
  BOOST_TEST(!holds(error::missing_node, condition::unavailable));
}

BOOST_AUTO_TEST_CASE(other_categories_satisfy_no_condition) {
  const error_code other(static_cast<int>(error::timed_out), boost::system::system_category());
  for (const condition c :
       {condition::not_applied, condition::outcome_unknown, condition::unavailable, condition::misuse}) {
    BOOST_TEST(!(other == c));
    BOOST_TEST(!(error_code() == c));
  }
}

BOOST_AUTO_TEST_CASE(another_copy_of_the_library_has_the_same_categories) {
  const error_code theirs = holdfast::test::second_copy::make_error_code(error::timed_out);
  BOOST_TEST((&theirs.category() != &holdfast::error_category()), "it is another copy");
  BOOST_TEST((theirs == error::timed_out));
  BOOST_TEST((theirs == condition::outcome_unknown));
  BOOST_TEST(!(theirs == condition::not_applied));
  BOOST_TEST(
      (error_code(error::timed_out) == holdfast::test::second_copy::make_error_condition(condition::outcome_unknown)));
  BOOST_TEST((holdfast::error_category() != holdfast::condition_category()));
}

BOOST_AUTO_TEST_CASE(diagnostics_are_one_line) {
  diagnostics d;
  BOOST_TEST(d.to_string() == "");
  d.message = "get: refused";
  BOOST_TEST(d.to_string() == "get: refused");
  d.key = "a\nb";
  d.server_message = "no";
  d.limit_conflict = {.recorded = 3, .ours = 4};
  BOOST_TEST(d.to_string() == "get: refused (key \"a b\") (limit recorded 3, ours 4); the server said: no");
}

BOOST_AUTO_TEST_SUITE_END()

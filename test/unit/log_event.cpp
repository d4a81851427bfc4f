// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <holdfast/log_event.hpp>
#include <set>
#include <string>

BOOST_AUTO_TEST_SUITE(log_event)

using holdfast::log_kind;
using holdfast::loss_reason;
using holdfast::severity;

BOOST_AUTO_TEST_CASE(a_text_has_the_fields_that_are_set) {
  holdfast::log_event event{.kind = log_kind::slot_lost, .key = "service/db", .reason = loss_reason::lease_expired};
  BOOST_TEST(event.text() == "slot of service/db lost: lease_expired");
  event.session = "s-1";
  BOOST_TEST(event.text() == "slot of service/db lost: lease_expired (session s-1)");
  event.token = holdfast::fencing_token{12, 3};
  event.slot_number = 4;
  event.cause = "no answer";
  event.left_out = 7;
  BOOST_TEST(
      event.text() ==
      "slot of service/db lost: lease_expired (session s-1, slot number 4, fencing token 12.3): no answer; equal "
      "events left out before: 7");
  BOOST_TEST((holdfast::log_event{.kind = log_kind::connections_refused, .key = "a:1", .queries = 2, .queries_max = 32}
                  .text()
                  .starts_with("a:1 refuses connections: ")));
  BOOST_TEST((holdfast::log_event{.kind = log_kind::agent_changed, .key = "b", .previous = "a"}.text() ==
              "requests go to b now, no longer to a"));
}

BOOST_AUTO_TEST_CASE(each_kind_has_a_text_of_its_own) {
  std::set<std::string> texts;
  for (const log_kind each : holdfast::log_kinds) {
    const holdfast::log_event event{.kind = each, .key = "KEY", .cause = "CAUSE"};
    texts.insert(event.text());
    BOOST_TEST(event.text().ends_with(": CAUSE"), event.text());
    BOOST_TEST(event.text().find('{') == std::string::npos, event.text());
  }
  BOOST_TEST(texts.size() == holdfast::log_kinds.size());
}

/// A name that another process has written stands in a line of this one.
BOOST_AUTO_TEST_CASE(no_field_can_forge_a_line) {
  const std::string forged =
      "x\nslot of service/db lost: removed\r\x1b[2J\x7f\xc2\x85 \xe2\x80\xa8 \xe2\x80\xae\xd8\x9c \xff \\n";
  const std::string escaped =
      "x\\u000aslot of service/db lost: removed\\u000d\\u001b[2J\\u007f\\u0085 \\u2028 \\u202e\\u061c \\xff \\\\n";
  for (const log_kind each : holdfast::log_kinds) {
    holdfast::log_event event{.kind = each};
    event.key = event.session = event.previous = event.cause = forged;
    for (const unsigned char c : event.text()) BOOST_TEST((c >= 0x20 && c != 0x7f));
    BOOST_TEST(event.text().ends_with(": " + escaped), event.text());
  }
  BOOST_TEST(
      (holdfast::log_event{.kind = log_kind::watch_failed, .key = "kö/日本"}.text() == "watch of kö/日本 failed"));
}

BOOST_AUTO_TEST_CASE(a_severity_says_who_must_act) {
  const auto of_loss = [](loss_reason reason) {
    return holdfast::log_event{.kind = log_kind::slot_lost, .reason = reason}.severity();
  };
  BOOST_TEST((of_loss(loss_reason::removed) == severity::error));
  BOOST_TEST((of_loss(loss_reason::closed) == severity::info));
  BOOST_TEST((holdfast::log_event{.kind = log_kind::watch_restored}.severity() == severity::info));
  BOOST_TEST((holdfast::log_event{.kind = log_kind::watch_failed}.severity() == severity::warning));
  BOOST_TEST(to_string(severity::warning) == "warning");
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/convert.hpp"

#include <boost/test/unit_test.hpp>
#include <variant>
#include <vector>

using namespace holdfast;
using consul::txn_refusal;
using protocol::event::outcome;
using protocol::event::refusal;
using protocol::event::renewal;

namespace {

outcome outcome_of(const error_code& ec, bool applied = false) {
  return runtime::txn_done(1, ec, {applied, {}, {}}, {}).outcome;
}

refusal refusal_of(txn_refusal reason) {
  const auto done = runtime::txn_done(1, {}, {false, {}, {{3, reason, "why"}}}, {});
  BOOST_REQUIRE(done.refusals.size() == 1u);
  BOOST_TEST(done.refusals.front().operation == 3u);
  return done.refusals.front().reason;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(runtime_convert)

BOOST_AUTO_TEST_CASE(only_what_certainly_had_no_effect_was_not_sent) {
  BOOST_TEST((outcome_of({}, true) == outcome::applied));
  BOOST_TEST((outcome_of({}) == outcome::refused));
  BOOST_TEST((outcome_of(error::unreachable) == outcome::not_sent));
  BOOST_TEST((outcome_of(error::permission_denied) == outcome::not_sent));
  BOOST_TEST((outcome_of(error::timed_out) == outcome::unknown));
  BOOST_TEST((outcome_of(error::malformed_reply) == outcome::unknown));
  BOOST_TEST((outcome_of(error::closed) == outcome::unknown));
}

BOOST_AUTO_TEST_CASE(a_write_that_could_not_be_made_has_an_unknown_outcome) {
  const protocol::failure why{error::connection_lost, {}};
  const auto answer = runtime::not_made(protocol::action::send_txn{3, {}}, why);
  BOOST_REQUIRE(answer.has_value());
  const auto& done = std::get<protocol::event::txn_done>(*answer);
  BOOST_TEST(done.id == 3u);
  BOOST_TEST((done.outcome == outcome::unknown));
  BOOST_TEST((done.error == why));
}

BOOST_AUTO_TEST_CASE(a_refusal_says_which_operation_and_why) {
  for (const txn_refusal each : {txn_refusal::conflict, txn_refusal::lock_held, txn_refusal::missing_key})
    BOOST_TEST((refusal_of(each) == refusal::conflict));
  BOOST_TEST((refusal_of(txn_refusal::lock_delay) == refusal::lock_delay));
  BOOST_TEST((refusal_of(txn_refusal::invalid_session) == refusal::invalid_session));
  BOOST_TEST((refusal_of(txn_refusal::permission_denied) == refusal::permission_denied));
  BOOST_TEST((refusal_of(txn_refusal::other) == refusal::other));
}

BOOST_AUTO_TEST_CASE(a_failure_keeps_its_words) {
  diagnostics words;
  words.message = "no route";
  const auto done = runtime::txn_done(7, error::unreachable, {}, words);
  BOOST_TEST(done.id == 7u);
  BOOST_TEST((done.error == protocol::failure{error::unreachable, words}));
  const auto listed = runtime::prefix_listed(8, error::unreachable, {}, words);
  BOOST_TEST(listed.id == 8u);
  BOOST_TEST((listed.error == protocol::failure{error::unreachable, words}));
}

BOOST_AUTO_TEST_CASE(a_listing_comes_with_its_index) {
  const auto listed = runtime::prefix_listed(1, {}, {{{"k", "v", 0, "s", 1, 2, 3}}, {.index = 9}}, {});
  BOOST_TEST(listed.index == 9u);
  BOOST_TEST((listed.listing == std::vector<kv_entry>{{"k", "v", 0, "s", 1, 2, 3}}));
}

BOOST_AUTO_TEST_CASE(a_key_comes_with_its_index) {
  const auto none = runtime::key_watched(1, {}, {{}, {.index = 9}}, {});
  BOOST_TEST((none == protocol::event::key_watched{1, {}, {}, 9}));
  const auto seen = runtime::key_watched(1, {}, {consul::kv_entry{"k", "v", 0, "s", 1, 2, 3}, {.index = 2}}, {});
  BOOST_TEST((seen == protocol::event::key_watched{1, kv_entry{"k", "v", 0, "s", 1, 2, 3}, {}, 2}));
}

BOOST_AUTO_TEST_CASE(an_answer_says_that_it_lacks_what_the_token_may_not_read) {
  BOOST_TEST(runtime::prefix_listed(1, {}, {{}, {.index = 9, .filtered_by_acls = true}}, {}).filtered);
  BOOST_TEST(!runtime::prefix_listed(1, {}, {{}, {.index = 9}}, {}).filtered);
  const auto seen = runtime::key_watched(1, {}, {{}, {.index = 9, .filtered_by_acls = true}}, {});
  BOOST_TEST((seen.error.code == error::permission_denied));
}

BOOST_AUTO_TEST_CASE(only_consul_can_say_that_a_session_is_gone) {
  BOOST_TEST((runtime::renewal({}) == renewal::renewed));
  BOOST_TEST((runtime::renewal(error::invalid_session) == renewal::gone));
  BOOST_TEST((runtime::renewal(error::unreachable) == renewal::failed));
}

BOOST_AUTO_TEST_SUITE_END()

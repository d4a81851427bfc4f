// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Fault plans: which request meets which fault, and what follows for the request.

#include <boost/test/unit_test.hpp>
#include <holdfast/testing/faults.hpp>
#include <set>
#include <vector>

#include "testing/fault_steps.hpp"

using namespace holdfast::testing;
using namespace std::chrono_literals;
using detail::fault_steps;
using detail::steps_of;
using kind = fault::kind;

namespace {

std::vector<kind> faults_of(fault_plan plan, std::size_t requests) {
  std::vector<kind> out;
  out.reserve(requests);
  for (std::size_t i = 0; i < requests; ++i) out.push_back(plan.next("GET /", "").what);
  return out;
}

/// True if the fault may happen in random plans.
bool is_random(kind each) {
  switch (each) {
    case kind::freeze:
    case kind::other_key:
      return false;
    case kind::none:
    case kind::delay:
    case kind::drop_request:
    case kind::drop_reply:
    case kind::cut_reply:
    case kind::duplicate:
    case kind::answer:
    case kind::answer_applied:
    case kind::refuse_connections:
    case kind::index_reset:
    case kind::expire_session:
    case kind::trickle:
    case kind::repeat_later:
    case kind::interim:
      return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(testing_faults)

BOOST_AUTO_TEST_CASE(without_rules_nothing_goes_wrong) {
  fault_plan plan;
  BOOST_TEST((plan.next("PUT /v1/txn", "[]") == fault()));
  BOOST_TEST(plan.met() == 0u);
}

BOOST_AUTO_TEST_CASE(a_rule_meets_what_fits_it) {
  const fault_rule rule{.what = fault::no_leader(), .target = "PUT /v1/kv/", .body = "lock", .times = 0};
  fault_plan plan({rule});
  BOOST_TEST((plan.next("PUT /v1/kv/a", "a lock") == fault::no_leader()));
  BOOST_TEST((plan.next("PUT /v1/kv/a", "other") == fault()));
  BOOST_TEST((plan.next("GET /v1/kv/a", "a lock") == fault()));
  BOOST_TEST((plan.next("PUT /v1/kv/b?x", "lock") == fault::no_leader()));
  BOOST_TEST(plan.met() == 2u);
}

BOOST_AUTO_TEST_CASE(a_rule_skips_and_then_counts) {
  fault_plan plan({{.what = fault::drop_reply(), .target = "PUT", .skip = 2, .times = 3}});
  std::vector<bool> met;
  for (int i = 0; i < 8; ++i) {
    BOOST_TEST((plan.next("GET /", "") == fault()));  // does not count
    met.push_back(plan.next("PUT /", "").what == kind::drop_reply);
  }
  BOOST_TEST(met == std::vector<bool>({false, false, true, true, true, false, false, false}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_first_rule_that_fits_decides) {
  fault_plan plan({{.what = fault::delay(1ms), .target = "PUT"},
                   {.what = fault::duplicate(), .target = "PUT", .skip = 1},
                   {.what = fault::no_leader(), .times = 0}});
  BOOST_TEST((plan.next("PUT /", "") == fault::delay(1ms)));
  BOOST_TEST((plan.next("PUT /", "") == fault::no_leader()));  // the second rule skips it
  BOOST_TEST((plan.next("PUT /", "") == fault::duplicate()));
  BOOST_TEST((plan.next("PUT /", "") == fault::no_leader()));
}

BOOST_AUTO_TEST_CASE(a_seed_makes_a_plan_repeatable) {
  const auto first = faults_of(fault_plan::random(7, 0.5), 500);
  BOOST_TEST((first == faults_of(fault_plan::random(7, 0.5), 500)));
  BOOST_TEST((first != faults_of(fault_plan::random(8, 0.5), 500)));
  const fault_rule half{.what = fault::no_leader(), .times = 0, .probability = 0.5};
  BOOST_TEST((faults_of(fault_plan({half}, 3), 100) == faults_of(fault_plan({half}, 3), 100)));
  BOOST_TEST((faults_of(fault_plan({half}, 3), 100) != faults_of(fault_plan({half}, 4), 100)));
}

BOOST_AUTO_TEST_CASE(a_copy_goes_on_like_its_original) {
  fault_plan plan = fault_plan::random(1, 0.5);
  for (int i = 0; i < 10; ++i) plan.next("GET /", "");
  BOOST_TEST((faults_of(plan, 200) == faults_of(plan, 200)));
}

BOOST_AUTO_TEST_CASE(a_random_plan_has_all_kinds_but_freeze) {
  constexpr std::size_t requests = 20'000;
  std::set<kind> seen;
  std::size_t met = 0;
  fault_plan plan = fault_plan::random(42, 0.3, 80ms);
  for (std::size_t i = 0; i < requests; ++i) {
    const fault what = plan.next("GET /", "");
    seen.insert(what.what);
    met += what.what != kind::none;
    BOOST_TEST((what.time <= 80ms));
  }
  BOOST_TEST(plan.met() == met);
  BOOST_TEST(met > requests * 28 / 100);
  BOOST_TEST(met < requests * 32 / 100);
  for (const kind each : holdfast::testing::fault_kinds)
    BOOST_TEST(seen.contains(each) == is_random(each), to_string(each));
}

BOOST_AUTO_TEST_CASE(probability_at_its_ends) {
  for (const kind each : faults_of(fault_plan::random(1, 0), 500)) BOOST_TEST((each == kind::none));
  for (const kind each : faults_of(fault_plan::random(1, 1), 500)) BOOST_TEST((each != kind::none));
}

BOOST_AUTO_TEST_CASE(what_each_fault_means_for_a_request) {
  using delivery = fault_steps::delivery;
  const auto text = [](unsigned status, std::string words) {
    return detail::api_reply{status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(words)};
  };
  BOOST_TEST((steps_of({}) == fault_steps()));
  BOOST_TEST((steps_of(fault::delay(3ms)) == fault_steps{.delay = 3ms}));
  BOOST_TEST((steps_of(fault::drop_request()) == fault_steps{.applications = 0, .reply = delivery::none}));
  BOOST_TEST((steps_of(fault::drop_reply()) == fault_steps{.reply = delivery::none}));
  BOOST_TEST((steps_of(fault::cut_reply()) == fault_steps{.reply = delivery::half}));
  BOOST_TEST((steps_of(fault::duplicate()) == fault_steps{.applications = 2}));
  BOOST_TEST((steps_of(fault::answer(418, "x")) == fault_steps{.applications = 0, .instead = text(418, "x")}));
  BOOST_TEST((steps_of(fault::answer_applied(500, "x")) == fault_steps{.instead = text(500, "x")}));
  BOOST_TEST(
      (steps_of(fault::no_leader()) == fault_steps{.applications = 0, .instead = text(500, "No cluster leader")}));
  BOOST_TEST(
      (steps_of(fault::forbidden()) == fault_steps{.applications = 0, .instead = text(403, "Permission denied")}));
  BOOST_TEST(steps_of(fault::too_many_requests()).instead->status == 429u);
  BOOST_TEST((steps_of(fault::rate_limited_by_server()) ==
              fault_steps{.applications = 0,
                          .instead = text(429, "rate limit exceeded, try again later or against a different server")}));
  BOOST_TEST((steps_of(fault::rate_limited_by_leader()) ==
              fault_steps{.applications = 0,
                          .instead = text(503,
                                          "rate limit exceeded for operation that can only be performed by the "
                                          "leader, try again later")}));
  BOOST_TEST((steps_of(fault::session_not_found("x")) ==
              fault_steps{.applications = 0, .instead = text(404, "Session id 'x' not found")}));
  BOOST_TEST((steps_of(fault::refuse_connections(4)) ==
              fault_steps{.applications = 0, .refuses = 4, .reply = delivery::none}));
  BOOST_TEST((steps_of(fault::freeze()) == fault_steps{.held = true}));
  BOOST_TEST((steps_of(fault::index_reset()) == fault_steps{.resets_index = true}));
  BOOST_TEST((steps_of(fault::expire_session()) == fault_steps{.ends_session = true}));
  BOOST_TEST((steps_of(fault::other_key()) == fault_steps{.names_other_key = true}));
  BOOST_TEST((steps_of(fault::trickle(2ms)) == fault_steps{.reply = delivery::byte_by_byte, .between = 2ms}));
  BOOST_TEST((steps_of(fault::repeat_later(2ms)) == fault_steps{.copy_after = 2ms}));
  BOOST_TEST((steps_of(fault::interim(103, 2)) == fault_steps{.interim = {103, 103}}));
}

BOOST_AUTO_TEST_CASE(an_index_that_is_not_there_is_not_reset) {
  detail::api_reply reply{200, {{"Content-Type", "x"}, {"X-Consul-Index", "99"}}, "b"};
  detail::reset_index(reply);
  BOOST_TEST((reply == detail::api_reply{200, {{"Content-Type", "x"}, {"X-Consul-Index", "1"}}, "b"}));
  detail::api_reply bare{200, {}, "b"};
  detail::reset_index(bare);
  BOOST_TEST((bare == detail::api_reply{200, {}, "b"}));
}

BOOST_AUTO_TEST_SUITE_END()

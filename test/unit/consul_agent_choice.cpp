// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The choice between several agents, in virtual time.

#include "consul/agents/agent_choice.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(consul_agent_choice)

namespace {

using namespace std::chrono_literals;
using holdfast::consul::detail::agent_choice;
using holdfast::consul::detail::time_point;
using trial = agent_choice::trial;
using agents = std::vector<std::size_t>;

constexpr time_point start{std::chrono::hours(1)};
constexpr time_point at(std::chrono::milliseconds since_start) { return start + since_start; }

// `waits_since`: the oldest request to the current agent was sent at this time, and is pending.
agent_choice::advice evaluate(agent_choice& choice, time_point now, std::optional<time_point> waits_since) {
  if (waits_since) choice.silent(choice.current(), *waits_since);
  return choice.evaluate(now);
}

// Three agents. The current one was sent a request at the start, and does not answer.
struct doubted {
  agent_choice choice{3};
  agent_choice::advice first = evaluate(choice, at(1'000ms), start);
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_agent_is_neither_doubted_nor_left) {
  agent_choice choice(1);
  choice.not_reached(0, start);
  choice.erred(0, start);
  const auto advice = evaluate(choice, at(1h), start);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST(!advice.has_left);
  BOOST_TEST(choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(the_next_one_is_asked_when_one_is_not_reached) {
  agent_choice choice(3);
  choice.not_reached(0, at(0ms));
  BOOST_TEST(choice.current() == 1u);
  choice.not_reached(1, at(1ms));
  BOOST_TEST(choice.current() == 2u);
  choice.not_reached(2, at(2ms));
  BOOST_TEST(choice.current() == 0u, "the one that has been avoided for longest");
  choice.not_reached(1, at(3ms));
  BOOST_TEST(choice.current() == 0u, "of no matter where nobody is");
}

BOOST_AUTO_TEST_CASE(one_that_is_not_reached_again_and_again_is_avoided_for_longer) {
  agent_choice choice(3);
  choice.not_reached(0, at(0ms));
  choice.not_reached(1, at(0ms));
  choice.not_reached(2, at(1'000ms));
  BOOST_TEST(choice.current() == 0u);
  choice.not_reached(0, at(1'000ms));  // until 3 s
  choice.not_reached(1, at(1'000ms));
  BOOST_TEST(choice.current() == 2u);
  choice.not_reached(2, at(2'500ms));
  BOOST_TEST(choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(silence_is_doubted_after_a_second) {
  agent_choice choice(3);
  auto advice = evaluate(choice, at(999ms), start);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.evaluate_again_at == at(1'000ms)));
  choice.answered(0, at(999ms));
  advice = evaluate(choice, at(1'000ms), start);
  BOOST_TEST(advice.to_try.empty(), "it has answered something meanwhile");
  BOOST_TEST((advice.evaluate_again_at == at(1'999ms)));
  advice = evaluate(choice, at(1'999ms), start);
  BOOST_TEST(advice.to_try == agents({0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(nobody_waits_and_nobody_is_doubted) {
  agent_choice choice(3);
  const auto advice = evaluate(choice, at(1h), std::nullopt);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.evaluate_again_at == time_point::max()));
}

BOOST_AUTO_TEST_CASE(a_frozen_agent_is_left_for_one_that_answers) {
  doubted d;
  BOOST_TEST(d.first.to_try == agents({0, 1, 2}));
  d.choice.tried(2, trial::knows_leader);
  auto advice = evaluate(d.choice, at(1'001ms), start);
  BOOST_TEST(!advice.has_left, "it has a moment to answer, too");
  BOOST_TEST((advice.evaluate_again_at == at(1'300ms)));
  advice = evaluate(d.choice, at(1'300ms), start);
  BOOST_TEST(advice.has_left);
  BOOST_TEST(d.choice.current() == 2u);
}

BOOST_AUTO_TEST_CASE(a_slow_cluster_is_no_reason_to_leave) {
  doubted d;
  for (const std::size_t each : {1, 2, 0}) d.choice.tried(each, trial::knows_leader);
  auto advice = evaluate(d.choice, at(1'300ms), start);
  BOOST_TEST(!advice.has_left);
  BOOST_TEST((advice.evaluate_again_at == at(2'000ms)), "and all are tried again");
  advice = evaluate(d.choice, at(2'000ms), start);
  BOOST_TEST(advice.to_try == agents({0, 1, 2}));
  BOOST_TEST(d.choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(an_election_is_no_reason_to_leave) {
  doubted d;
  for (const std::size_t each : {1, 2}) d.choice.tried(each, trial::knows_none);
  BOOST_TEST(!evaluate(d.choice, at(1'900ms), start).has_left);
  BOOST_TEST(d.choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(an_agent_that_has_lost_the_others_is_left) {
  doubted d;
  d.choice.tried(0, trial::knows_leader);  // what it knew
  d.choice.tried(1, trial::knows_leader);
  BOOST_TEST(!evaluate(d.choice, at(1'400ms), start).has_left);
  const auto again = evaluate(d.choice, at(2'000ms), start);
  BOOST_TEST(again.to_try == agents({0, 1}), "the third one has not answered yet");
  d.choice.tried(0, trial::knows_none);
  BOOST_TEST(evaluate(d.choice, at(2'001ms), start).has_left, "the other one has said that it knows a leader");
  BOOST_TEST(d.choice.current() == 1u);
}

BOOST_AUTO_TEST_CASE(errors_for_a_second_are_doubted) {
  agent_choice choice(2);
  choice.erred(0, at(0ms));
  choice.erred(0, at(900ms));
  BOOST_TEST((evaluate(choice, at(900ms), std::nullopt).evaluate_again_at == at(1'000ms)));
  BOOST_TEST(evaluate(choice, at(1'000ms), std::nullopt).to_try == agents({0, 1}));
  choice.tried(0, trial::knows_none);
  choice.tried(1, trial::knows_leader);
  BOOST_TEST(evaluate(choice, at(1'001ms), std::nullopt).has_left);
  BOOST_TEST(choice.current() == 1u);
}

BOOST_AUTO_TEST_CASE(a_doubt_ends_with_an_answer_and_with_it_what_was_heard_in_it) {
  doubted d;
  d.choice.tried(1, trial::knows_leader);
  d.choice.answered(0, at(1'100ms));
  BOOST_TEST(!evaluate(d.choice, at(1'300ms), at(1'200ms)).has_left);
  const auto next = evaluate(d.choice, at(2'200ms), at(1'200ms));
  BOOST_TEST(!next.has_left, "that was another doubt");
  BOOST_TEST(next.to_try == agents({1}), "the others have not answered yet");
}

BOOST_AUTO_TEST_CASE(the_first_is_returned_to_when_it_works_again) {
  agent_choice choice(3);
  choice.not_reached(0, at(0ms));
  choice.answered(1, at(1ms));
  BOOST_TEST((evaluate(choice, at(2ms), std::nullopt).evaluate_again_at == at(60s)));
  auto advice = evaluate(choice, at(60s), std::nullopt);
  BOOST_TEST(advice.to_try == agents({0}));
  choice.tried(0, trial::failed);
  advice = evaluate(choice, at(61s), std::nullopt);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.evaluate_again_at == at(120s)));
  BOOST_TEST(evaluate(choice, at(120s), std::nullopt).to_try == agents({0}));
  choice.tried(0, trial::knows_leader);
  advice = evaluate(choice, at(121s), std::nullopt);
  BOOST_TEST(choice.current() == 0u);
  BOOST_TEST(!advice.has_left, "what is under way at the other may end there");
  BOOST_TEST((evaluate(choice, at(122s), std::nullopt).evaluate_again_at == time_point::max()));
  choice.not_reached(0, at(200s));
  BOOST_TEST(evaluate(choice, at(260s), std::nullopt).to_try == agents({0}), "what it said before does not count");
  BOOST_TEST(choice.current() == 1u);
}

// --- The state machine: each event in each state of the current agent.

namespace {

using state = agent_choice::state;

// Three agents. The first one is the current one, and is in the given state at time 0.
agent_choice in_state(state wanted) {
  agent_choice choice(3);
  if (wanted == state::silent) choice.silent(0, at(-100ms));
  if (wanted == state::erring) choice.erred(0, at(-100ms));
  if (wanted == state::doubted) evaluate(choice, at(0ms), at(-1'000ms));
  BOOST_TEST_REQUIRE((choice.current_state() == wanted));
  return choice;
}

struct event {
  const char* name;
  void (*happens)(agent_choice&);
};
constexpr event answered{"answered", [](auto& choice) { choice.answered(0, at(0ms)); }};
constexpr event erred{"erred", [](auto& choice) { choice.erred(0, at(0ms)); }};
constexpr event not_reached{"not reached", [](auto& choice) { choice.not_reached(0, at(0ms)); }};
constexpr event silent{"silent", [](auto& choice) { choice.silent(0, at(0ms)); }};
constexpr event cancelled{"cancelled", [](auto& choice) { choice.cancelled(0, at(0ms)); }};
constexpr event it_knows{"tried: it knows a leader", [](auto& choice) { choice.tried(0, trial::knows_leader); }};
constexpr event it_fails{"tried: it fails", [](auto& choice) { choice.tried(0, trial::failed); }};
constexpr event other_knows{"tried: another one knows a leader",
                            [](auto& choice) { choice.tried(1, trial::knows_leader); }};
constexpr event a_moment{"100 ms", [](auto& choice) { choice.evaluate(at(100ms)); }};
constexpr event a_second{"1 s", [](auto& choice) { choice.evaluate(at(1'000ms)); }};

struct row {
  state before;
  event what;
  state after;
  std::size_t asked = 0;
};

const row table[] = {
    {state::working, answered, state::working},       {state::working, erred, state::erring},
    {state::working, not_reached, state::working, 1}, {state::working, silent, state::silent},
    {state::working, cancelled, state::silent},       {state::working, it_knows, state::working},
    {state::working, it_fails, state::working},       {state::working, other_knows, state::working},
    {state::working, a_moment, state::working},       {state::working, a_second, state::working},

    {state::silent, answered, state::working},        {state::silent, erred, state::erring},
    {state::silent, not_reached, state::working, 1},  {state::silent, silent, state::silent},
    {state::silent, cancelled, state::silent},        {state::silent, it_knows, state::working},
    {state::silent, it_fails, state::silent},         {state::silent, other_knows, state::silent},
    {state::silent, a_moment, state::silent},         {state::silent, a_second, state::doubted},

    {state::erring, answered, state::working},        {state::erring, erred, state::erring},
    {state::erring, not_reached, state::working, 1},  {state::erring, silent, state::erring},
    {state::erring, cancelled, state::erring},        {state::erring, it_knows, state::erring},
    {state::erring, it_fails, state::erring},         {state::erring, other_knows, state::erring},
    {state::erring, a_moment, state::erring},         {state::erring, a_second, state::doubted},

    {state::doubted, answered, state::working},       {state::doubted, erred, state::doubted},
    {state::doubted, not_reached, state::working, 1}, {state::doubted, silent, state::doubted},
    {state::doubted, cancelled, state::doubted},      {state::doubted, it_knows, state::doubted},
    {state::doubted, it_fails, state::doubted},       {state::doubted, other_knows, state::doubted},
    {state::doubted, a_moment, state::doubted},       {state::doubted, a_second, state::doubted},
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_event_in_each_state) {
  for (const row& each : table) {
    BOOST_TEST_CONTEXT(each.what.name << " in state " << static_cast<int>(each.before)) {
      agent_choice choice = in_state(each.before);
      each.what.happens(choice);
      BOOST_TEST((choice.current_state() == each.after));
      BOOST_TEST(choice.current() == each.asked);
    }
  }
}

BOOST_AUTO_TEST_CASE(silence_belongs_to_the_agent_and_not_to_a_request) {
  agent_choice choice(2);
  for (const auto since : {0ms, 300ms, 600ms}) choice.cancelled(0, at(since));
  BOOST_TEST(evaluate(choice, at(1'000ms), at(900ms)).to_try == agents({0, 1}));
  choice.tried(1, trial::knows_leader);
  BOOST_TEST(evaluate(choice, at(1'300ms), at(900ms)).has_left);
}

BOOST_AUTO_TEST_CASE(an_answer_ends_the_silence_of_requests_before_it) {
  agent_choice choice(2);
  choice.answered(0, at(500ms));
  choice.silent(0, at(100ms));
  BOOST_TEST((choice.evaluate(at(1'100ms)).evaluate_again_at == at(1'500ms)));
}

BOOST_AUTO_TEST_CASE(a_trial_clears_an_agent_for_which_nobody_waits_any_more) {
  agent_choice choice(2);
  choice.cancelled(0, at(0ms));
  BOOST_TEST(choice.evaluate(at(1'000ms)).to_try == agents({0, 1}));
  choice.tried(0, trial::knows_leader);
  choice.tried(1, trial::knows_leader);
  const auto advice = choice.evaluate(at(1'010ms));
  BOOST_TEST(!advice.has_left);
  BOOST_TEST((advice.evaluate_again_at == time_point::max()));
}

// 1 s for each reply, that of a trial too.
BOOST_AUTO_TEST_CASE(a_slow_agent_may_be_left_and_is_not_returned_to) {
  agent_choice choice(2);
  evaluate(choice, at(1'000ms), start);
  choice.tried(1, trial::knows_leader);
  BOOST_TEST(evaluate(choice, at(1'300ms), start).has_left);
  choice.tried(0, trial::failed);  // its deadline is over
  std::size_t moves = 0;
  for (auto now = 2s; now != 600s; ++now) {
    choice.answered(choice.current(), at(now));
    const auto advice = choice.evaluate(at(now));
    for (const std::size_t each : advice.to_try) choice.tried(each, each == 0 ? trial::failed : trial::knows_leader);
    if (choice.current() != 1) ++moves;
  }
  BOOST_TEST(moves == 0u);
}

BOOST_AUTO_TEST_CASE(an_agent_that_closes_new_connections_and_answers_on_others_is_not_left) {
  agent_choice choice(2);
  for (auto now = 0ms; now != 5'000ms; now += 100ms) {
    choice.erred(0, at(now));
    if (now % 500ms == 0ms) choice.answered(0, at(now));
    const auto advice = choice.evaluate(at(now));
    BOOST_TEST(advice.to_try.empty());
  }
  BOOST_TEST(choice.current() == 0u);
}

BOOST_AUTO_TEST_SUITE_END()

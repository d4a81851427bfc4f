// Which of several agents is asked, on virtual time.

#include "consul/agent_choice.hpp"

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

// Three agents, of which the current one was sent a request at the start, and says nothing.
struct doubted {
  agent_choice choice{3};
  agent_choice::advice first = choice.look(at(1'000ms), start);
};

}  // namespace

BOOST_AUTO_TEST_CASE(one_agent_is_neither_doubted_nor_left) {
  agent_choice choice(1);
  choice.not_reached(0, start);
  choice.erred(0, start);
  const auto advice = choice.look(at(1h), start);
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
  auto advice = choice.look(at(999ms), start);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.look_again == at(1'000ms)));
  choice.answered(0, at(999ms));
  advice = choice.look(at(1'000ms), start);
  BOOST_TEST(advice.to_try.empty(), "it has answered something meanwhile");
  BOOST_TEST((advice.look_again == at(1'999ms)));
  advice = choice.look(at(1'999ms), start);
  BOOST_TEST(advice.to_try == agents({0, 1, 2}));
}

BOOST_AUTO_TEST_CASE(nobody_waits_and_nobody_is_doubted) {
  agent_choice choice(3);
  const auto advice = choice.look(at(1h), std::nullopt);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.look_again == time_point::max()));
}

BOOST_AUTO_TEST_CASE(a_frozen_agent_is_left_for_one_that_answers) {
  doubted d;
  BOOST_TEST(d.first.to_try == agents({0, 1, 2}));
  d.choice.tried(2, trial::knows_leader);
  auto advice = d.choice.look(at(1'001ms), start);
  BOOST_TEST(!advice.has_left, "it has a moment to answer, too");
  BOOST_TEST((advice.look_again == at(1'300ms)));
  advice = d.choice.look(at(1'300ms), start);
  BOOST_TEST(advice.has_left);
  BOOST_TEST(d.choice.current() == 2u);
}

BOOST_AUTO_TEST_CASE(a_slow_cluster_is_no_reason_to_leave) {
  doubted d;
  for (const std::size_t each : {1, 2, 0}) d.choice.tried(each, trial::knows_leader);
  auto advice = d.choice.look(at(1'300ms), start);
  BOOST_TEST(!advice.has_left);
  BOOST_TEST((advice.look_again == at(2'000ms)), "and all are tried again");
  advice = d.choice.look(at(2'000ms), start);
  BOOST_TEST(advice.to_try == agents({0, 1, 2}));
  BOOST_TEST(d.choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(an_election_is_no_reason_to_leave) {
  doubted d;
  for (const std::size_t each : {1, 2}) d.choice.tried(each, trial::knows_none);
  BOOST_TEST(!d.choice.look(at(1'900ms), start).has_left);
  BOOST_TEST(d.choice.current() == 0u);
}

BOOST_AUTO_TEST_CASE(an_agent_that_has_lost_the_others_is_left) {
  doubted d;
  d.choice.tried(0, trial::knows_leader);  // what it knew
  d.choice.tried(1, trial::knows_leader);
  BOOST_TEST(!d.choice.look(at(1'400ms), start).has_left);
  const auto again = d.choice.look(at(2'000ms), start);
  BOOST_TEST(again.to_try == agents({0, 1}), "the third one has not answered yet");
  d.choice.tried(0, trial::knows_none);
  BOOST_TEST(d.choice.look(at(2'001ms), start).has_left, "the other one has said that it knows a leader");
  BOOST_TEST(d.choice.current() == 1u);
}

BOOST_AUTO_TEST_CASE(errors_for_a_second_are_doubted) {
  agent_choice choice(2);
  choice.erred(0, at(0ms));
  choice.erred(0, at(900ms));
  BOOST_TEST((choice.look(at(900ms), std::nullopt).look_again == at(1'000ms)));
  BOOST_TEST(choice.look(at(1'000ms), std::nullopt).to_try == agents({0, 1}));
  choice.tried(0, trial::knows_none);
  choice.tried(1, trial::knows_leader);
  BOOST_TEST(choice.look(at(1'001ms), std::nullopt).has_left);
  BOOST_TEST(choice.current() == 1u);
}

BOOST_AUTO_TEST_CASE(a_doubt_ends_with_an_answer_and_with_it_what_was_heard_in_it) {
  doubted d;
  d.choice.tried(1, trial::knows_leader);
  d.choice.answered(0, at(1'100ms));
  BOOST_TEST(!d.choice.look(at(1'300ms), at(1'200ms)).has_left);
  const auto next = d.choice.look(at(2'200ms), at(1'200ms));
  BOOST_TEST(!next.has_left, "that was another doubt");
  BOOST_TEST(next.to_try == agents({1}), "the others have not answered yet");
}

BOOST_AUTO_TEST_CASE(the_first_is_returned_to_when_it_works_again) {
  agent_choice choice(3);
  choice.not_reached(0, at(0ms));
  choice.answered(1, at(1ms));
  BOOST_TEST((choice.look(at(2ms), std::nullopt).look_again == at(60s)));
  auto advice = choice.look(at(60s), std::nullopt);
  BOOST_TEST(advice.to_try == agents({0}));
  choice.tried(0, trial::failed);
  advice = choice.look(at(61s), std::nullopt);
  BOOST_TEST(advice.to_try.empty());
  BOOST_TEST((advice.look_again == at(120s)));
  BOOST_TEST(choice.look(at(120s), std::nullopt).to_try == agents({0}));
  choice.tried(0, trial::knows_leader);
  advice = choice.look(at(121s), std::nullopt);
  BOOST_TEST(choice.current() == 0u);
  BOOST_TEST(!advice.has_left, "what is under way at the other may end there");
  BOOST_TEST((choice.look(at(122s), std::nullopt).look_again == time_point::max()));
  choice.not_reached(0, at(200s));
  BOOST_TEST(choice.look(at(260s), std::nullopt).to_try == agents({0}), "what it said before does not count");
  BOOST_TEST(choice.current() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

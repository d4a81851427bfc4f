// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/broker_command.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Commands of operators on a semaphore at RabbitMQ: which requests they make, and what remains if they end early.

namespace holdfast::test {

BOOST_AUTO_TEST_SUITE(broker_command)

namespace {

using namespace std::chrono_literals;
using protocol::broker_answer;
using protocol::broker_command_run;
using protocol::broker_next_step;
using protocol::broker_request;
namespace broker_step = protocol::broker_step;
using kind = protocol::broker_command::kind;
using lines = std::vector<std::string>;
using numbers = std::vector<std::uint32_t>;
constexpr std::size_t no_end = std::numeric_limits<std::size_t>::max();

/// The queues of one semaphore.
struct queues {
  std::set<std::uint32_t> slots{};                  // A
  std::set<std::uint32_t> held{};                   // B of holders
  std::set<std::uint32_t> ours{};                   // B of the administrator
  std::map<std::uint32_t, std::uint32_t> tokens{};  // F, and its messages
  std::optional<std::uint32_t> mark{};
  bool has_hints = true;
  int locked_times = 0;  // so often another administrator has N
  bool other_lease = false;

  /// `count` slots that nobody holds, each with a token.
  static queues with(std::uint32_t count) {
    queues all;
    for (std::uint32_t k = 1; k <= count; ++k) {
      all.slots.insert(k);
      all.tokens[k] = 1;
    }
    return all;
  }
  void connection_ends() { ours.clear(); }
  bool operator==(const queues&) const = default;
};

broker_answer refused(broker_answer::kind what) { return {what, 0, {error::not_a_semaphore, {"refused", {}, {}, {}}}}; }

/// Carries out requests on the queues.
struct broker {
  queues& at;
  broker_answer declare(bool succeeds, broker_answer::kind otherwise) const {
    return succeeds ? broker_answer() : refused(otherwise);
  }
  broker_answer find(bool exists) const { return declare(exists, broker_answer::kind::missing); }
  broker_answer take(std::uint32_t k) const {
    if (at.held.contains(k)) return refused(broker_answer::kind::locked);
    BOOST_TEST(at.ours.insert(k).second, "B " << k << " is declared twice on one connection");
    return {};
  }
  broker_answer mark(std::uint32_t count) const {
    if (at.mark && *at.mark != count) return refused(broker_answer::kind::differs);
    at.mark = count;
    return {};
  }
  broker_answer find_tokens(std::uint32_t k) const {
    const auto found = at.tokens.find(k);
    if (found == at.tokens.end()) return refused(broker_answer::kind::missing);
    return {broker_answer::kind::ok, found->second, {}};
  }
  broker_answer declare_tokens(std::uint32_t k) const {
    if (at.other_lease) return refused(broker_answer::kind::differs);
    at.tokens.emplace(k, 0);
    return {};
  }

  broker_answer carry_out(const broker_step::ask& step) const {
    const std::uint32_t k = step.number;
    switch (step.what) {
      case broker_request::lock:
        return declare(at.locked_times == 0 || at.locked_times-- == 0, broker_answer::kind::locked);
      case broker_request::unlock:
        return {};
      case broker_request::find_mark:
        return find(at.mark.has_value());
      case broker_request::declare_mark:
        return mark(k);
      case broker_request::delete_mark:
        at.mark.reset();
        return {};
      case broker_request::find_slot:
        return find(at.slots.contains(k));
      case broker_request::declare_slot:
        at.slots.insert(k);
        return {};
      case broker_request::delete_slot:
        at.slots.erase(k);
        return {};
      case broker_request::find_holder:
        return at.held.contains(k) ? refused(broker_answer::kind::locked) : find(false);
      case broker_request::take:
        return take(k);
      case broker_request::give_back:
        BOOST_TEST(at.ours.erase(k) == 1u);
        return {};
      case broker_request::find_tokens:
        return find_tokens(k);
      case broker_request::declare_tokens:
        return declare_tokens(k);
      case broker_request::publish_token:
        BOOST_TEST(at.ours.contains(k), "a token is published without B");
        at.tokens.at(k) = 1;
        return {};
      case broker_request::delete_tokens:
        BOOST_TEST(at.ours.contains(k), "F is deleted without B");
        at.tokens.erase(k);
        return {};
      case broker_request::delete_hints:
        at.has_hints = false;
        return {};
    }
    return {};
  }
};

std::string to_line(const broker_step::ask& step) {
  static const char* const names[] = {"lock", "unlock", "mark?", "mark", "-mark", "A?",    "A",  "-A",
                                      "B?",   "B",      "-B",    "F?",   "F",     "token", "-F", "-hints"};
  const std::string name = names[static_cast<std::size_t>(step.what)];
  return step.number == 0 ? name : name + ' ' + std::to_string(step.number);
}

/// Runs commands on queues, with a clock of its own.
struct administration {
  explicit administration(queues all = {}) : at(std::move(all)) {}

  /// Runs a command until it is done, or has made `most` requests. Then its connection ends.
  error_code run(kind what, std::uint32_t number = 0, std::size_t most = no_end, protocol::duration within = 1h) {
    asked.clear();
    pauses = 0;
    protocol::broker_command command{what, "jobs", number, 10s, within};
    broker_command_run its(std::move(command), 1, now);
    broker_next_step next = its.begin(now);
    why = {};
    while (!std::holds_alternative<broker_step::done>(next) && asked.size() <= most) {
      next = step(its, next, most);
      check_that_there_is_no_gap();
    }
    at.connection_ends();
    seen = its.seen();
    if (auto* const done = std::get_if<broker_step::done>(&next)) why = done->why;
    is_done = std::holds_alternative<broker_step::done>(next);
    return why.code;
  }
  broker_next_step step(broker_command_run& its, const broker_next_step& next, std::size_t most) {
    if (std::holds_alternative<broker_step::connect>(next)) {
      at.connection_ends();
      if (unreachable_times-- <= 0) return its.connected({}, now);
      now += 100ms;
      return its.connected({error::unreachable, {}}, now);
    }
    if (const auto* const pause = std::get_if<broker_step::pause>(&next)) {
      ++pauses;
      now += pause->time;
      if (on_pause) on_pause();
      return its.rested(now);
    }
    const auto& ask = std::get<broker_step::ask>(next);
    asked.push_back(to_line(ask));
    if (asked.size() > most) return next;  // the process has died before this request
    now += 1ms;
    if (lost_at == asked.size()) {
      broker{at}.carry_out(ask);
      return its.answered({broker_answer::kind::failed, 0, {error::connection_lost, {}}}, now);
    }
    return its.answered(broker{at}.carry_out(ask), now);
  }
  void check_that_there_is_no_gap() const { BOOST_TEST((at.slots.empty() || *at.slots.rbegin() == at.slots.size())); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(at.slots.size()); }

  queues at;
  protocol::time_point now{1h};
  lines asked{};
  int pauses = 0;
  int unreachable_times = 0;
  std::size_t lost_at = 0;
  std::function<void()> on_pause{};
  protocol::failure why{};
  bool is_done = false;
  broker_command_run::findings seen{};
};

/// Calls the function with each number of requests after which the command may end.
template <class Function>
void after_each_request(const queues& before, kind what, std::uint32_t number, Function then) {
  std::size_t points = 0;
  for (bool is_done = false; !is_done; ++points) {
    BOOST_TEST_CONTEXT("after " << points << " requests") {
      administration its(before);
      its.run(what, number, points);
      is_done = its.is_done;
      then(its);
    }
  }
  BOOST_TEST(points > 5u);
}

}  // namespace

// --- Slots are made.

BOOST_AUTO_TEST_CASE(a_creation_marks_itself_and_makes_slots_with_tokens) {
  administration its;
  BOOST_TEST(!its.run(kind::create, 2));
  BOOST_TEST(its.asked == (lines{"lock", "A? 1", "mark 2", "B 1", "F? 1", "F 1", "token 1", "A 1", "-B 1", "B 2",
                                 "F? 2", "F 2", "token 2", "A 2", "-B 2", "-mark", "unlock"}),
             boost::test_tools::per_element());
  BOOST_TEST((its.at == queues::with(2)));
  BOOST_TEST(its.seen.slots == 2u);
}

BOOST_AUTO_TEST_CASE(a_semaphore_with_as_many_slots_is_left_alone) {
  administration its(queues::with(2));
  BOOST_TEST(!its.run(kind::create, 2));
  BOOST_TEST(its.asked == (lines{"lock", "A? 1", "A? 2", "A? 3", "mark?", "unlock"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_number_of_slots_is_a_conflict) {
  for (const std::uint32_t count : {1u, 3u}) {
    administration its(queues::with(count));
    BOOST_TEST(its.run(kind::create, 2) == error::limit_conflict);
    BOOST_TEST((its.why.details.limit_conflict == diagnostics::limits{count, 2}));
    BOOST_TEST(its.why.details.key == "jobs");
    BOOST_TEST((its.at == queues::with(count)));
  }
}

BOOST_AUTO_TEST_CASE(the_same_command_completes_a_creation) {
  after_each_request({}, kind::create, 3, [](administration& its) {
    BOOST_TEST(!its.run(kind::create, 3));
    BOOST_TEST(its.count() == 3u);
    BOOST_TEST(!its.at.mark);
    BOOST_TEST(its.at.tokens.size() == 3u);  // one that died behind the declare of F has left no token, which is safe
    const queues complete = its.at;
    BOOST_TEST(!its.run(kind::create, 3));
    BOOST_TEST((its.at == complete));
  });
}

BOOST_AUTO_TEST_CASE(an_unfinished_creation_is_a_conflict_for_another_number) {
  after_each_request({}, kind::create, 3, [](administration& its) {
    const std::uint32_t before = its.count();
    const bool is_complete = !its.at.mark && before == 3;
    const error_code code = its.run(kind::create, 2);
    if (before == 0) {
      BOOST_TEST(!code);  // nobody has seen a slot
      BOOST_TEST(its.count() == 2u);
      BOOST_TEST(!its.at.mark);
    } else {
      BOOST_TEST(code == error::limit_conflict);
      BOOST_TEST(its.count() == before);
      BOOST_TEST(its.at.mark.has_value() == !is_complete);
    }
  });
}

BOOST_AUTO_TEST_CASE(grow_shrink_and_destroy_delete_a_mark) {
  for (const kind what : {kind::grow, kind::shrink, kind::destroy}) {
    queues unfinished = queues::with(2);
    unfinished.mark = 5;
    administration its(unfinished);
    BOOST_TEST(!its.run(what, 1));
    BOOST_TEST(!its.at.mark);
  }
}

BOOST_AUTO_TEST_CASE(a_slot_that_is_still_held_only_exists_again) {
  queues all;
  all.held = {1};
  administration its(all);
  BOOST_TEST(!its.run(kind::create, 1));
  BOOST_TEST(its.asked == (lines{"lock", "A? 1", "mark 1", "B 1", "A 1", "-mark", "unlock"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_old_token_queue_says_what_is_true) {
  queues all;
  all.tokens = {{1, 0}};
  administration its(all);
  BOOST_TEST(!its.run(kind::create, 1));
  BOOST_TEST(its.at.tokens.at(1) == 0u);
}

BOOST_AUTO_TEST_CASE(a_token_queue_with_another_lease_is_a_conflict) {
  queues all;
  all.other_lease = true;
  administration its(all);
  BOOST_TEST(its.run(kind::create, 1) == error::lease_conflict);
  BOOST_TEST(its.count() == 0u);
}

BOOST_AUTO_TEST_CASE(grow_adds_slots_above_the_highest) {
  administration its(queues::with(2));
  BOOST_TEST(!its.run(kind::grow, 2));
  BOOST_TEST((its.at == queues::with(4)));
  BOOST_TEST(its.seen.slots == 4u);
}

BOOST_AUTO_TEST_CASE(grow_that_has_died_counts_anew) {
  after_each_request(queues::with(1), kind::grow, 2, [](administration& its) {
    const std::uint32_t before = its.count();
    BOOST_TEST((1 <= before && before <= 3));
    BOOST_TEST(!its.run(kind::grow, 2));
    BOOST_TEST(its.seen.slots == before + 2);
    BOOST_TEST(its.count() == before + 2);
    BOOST_TEST(its.at.ours.empty());
  });
}

// --- Slots are removed.

BOOST_AUTO_TEST_CASE(shrink_removes_the_highest_slots_and_keeps_their_tokens) {
  administration its(queues::with(3));
  its.at.held = {3};
  BOOST_TEST(!its.run(kind::shrink, 2));
  BOOST_TEST(its.asked == (lines{"lock", "A? 1", "A? 2", "A? 3", "A? 4", "-mark", "-A 3", "-A 2", "unlock"}),
             boost::test_tools::per_element());
  BOOST_TEST(its.seen.slots == 1u);
  BOOST_TEST(its.at.tokens.size() == 3u);
}

BOOST_AUTO_TEST_CASE(shrink_may_remove_all) {
  administration its(queues::with(2));
  BOOST_TEST(!its.run(kind::shrink, 5));
  BOOST_TEST(its.seen.slots == 0u);
  BOOST_TEST(its.count() == 0u);
}

BOOST_AUTO_TEST_CASE(shrink_that_has_died_counts_anew) {
  after_each_request(queues::with(5), kind::shrink, 2, [](administration& its) {
    const std::uint32_t before = its.count();
    BOOST_TEST((3 <= before && before <= 5));
    BOOST_TEST(!its.run(kind::shrink, 2));
    BOOST_TEST(its.count() == before - 2);
  });
}

BOOST_AUTO_TEST_CASE(destroy_removes_the_slots_and_then_their_queues) {
  administration its(queues::with(2));
  BOOST_TEST(!its.run(kind::destroy));
  BOOST_TEST(its.asked == (lines{"lock", "A? 1", "A? 2", "A? 3", "-mark", "-A 2", "-A 1", "F? 3", "B 2", "F? 2", "-F 2",
                                 "-B 2", "B 1", "F? 1", "-F 1", "-B 1", "-hints", "unlock"}),
             boost::test_tools::per_element());
  queues nothing;
  nothing.has_hints = false;
  BOOST_TEST((its.at == nothing));
  BOOST_TEST(its.seen.kept.empty());
  BOOST_TEST(its.seen.taken.empty());
}

BOOST_AUTO_TEST_CASE(destroy_keeps_the_token_queues_of_slots_that_were_not_released) {
  queues all = queues::with(4);
  all.held = {2, 4};
  all.tokens[1] = 0;
  all.tokens.erase(4);  // a client that does not know F holds it
  administration its(all);
  BOOST_TEST(!its.run(kind::destroy));
  BOOST_TEST(its.seen.taken == (numbers{2, 4}), boost::test_tools::per_element());
  BOOST_TEST(its.seen.kept == (numbers{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(its.count() == 0u);
  BOOST_TEST(its.at.tokens.size() == 2u);
}

BOOST_AUTO_TEST_CASE(destroy_may_overshoot) {
  queues all = queues::with(1);
  all.tokens[3] = 1;  // behind a gap
  administration its(all);
  BOOST_TEST(!its.run(kind::destroy, 2));
  BOOST_TEST(its.asked[4] == "-A 3");
  BOOST_TEST(its.at.tokens.empty());
}

BOOST_AUTO_TEST_CASE(the_same_command_completes_a_destroy) {
  after_each_request(queues::with(3), kind::destroy, 0, [](administration& its) {
    BOOST_TEST(!its.run(kind::destroy));
    queues nothing;
    nothing.has_hints = false;
    BOOST_TEST((its.at == nothing));
    BOOST_TEST(its.seen.kept.empty());
  });
}

// --- Nothing is changed.

BOOST_AUTO_TEST_CASE(inspect_tells_which_slots_are_taken) {
  queues all = queues::with(3);
  all.held = {2, 4, 5};
  all.tokens[6] = 0;
  administration its(all);
  BOOST_TEST(!its.run(kind::inspect));
  BOOST_TEST(its.seen.slots == 3u);
  BOOST_TEST(its.seen.taken == (numbers{2, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(!its.seen.unfinished);
  BOOST_TEST((its.at == all));
}

BOOST_AUTO_TEST_CASE(inspect_tells_of_an_unfinished_creation) {
  administration its;
  BOOST_TEST(!its.run(kind::inspect));
  BOOST_TEST(its.seen.slots == 0u);
  BOOST_TEST(!its.seen.unfinished);
  its.at.mark = 3;
  BOOST_TEST(!its.run(kind::inspect));
  BOOST_TEST(its.seen.unfinished);
}

BOOST_AUTO_TEST_CASE(a_wait_asks_again_until_the_slot_is_free) {
  administration its(queues::with(2));
  its.at.held = {2};
  std::vector<protocol::duration> times;
  protocol::time_point before = its.now;
  its.on_pause = [&] {
    times.push_back(its.now - before);
    before = its.now + 1ms;
    if (times.size() == 9) its.at.held.clear();
  };
  BOOST_TEST(!its.run(kind::wait_until_released, 2));
  BOOST_TEST(its.pauses == 9);
  BOOST_TEST((times[1] == 20ms));
  BOOST_TEST((times[6] == 640ms));
  BOOST_TEST((times[7] == 1s));
  BOOST_TEST((times[8] == 1s));
}

BOOST_AUTO_TEST_CASE(a_wait_has_a_time_limit) {
  for (const kind what : {kind::wait_until_released, kind::wait_until_drained}) {
    administration its(queues::with(1));
    its.at.held = {1};
    const protocol::time_point before = its.now;
    BOOST_TEST(its.run(what, 1, no_end, 5s) == error::in_use);
    BOOST_TEST((its.now - before >= 5s));
    BOOST_TEST((its.now - before < 5100ms));
  }
}

BOOST_AUTO_TEST_CASE(a_semaphore_is_drained_when_removed_slots_are_free_too) {
  administration its(queues::with(1));
  its.at.tokens[2] = 0;
  its.at.held = {1, 2};
  its.on_pause = [&] {
    if (its.pauses == 2) its.at.held.erase(1);
    if (its.pauses == 5) its.at.held.erase(2);
  };
  BOOST_TEST(!its.run(kind::wait_until_drained));
  BOOST_TEST(its.pauses == 5);
}

BOOST_AUTO_TEST_CASE(a_wait_remembers_the_slots_that_it_has_seen) {
  administration its(queues::with(3));
  its.at.held = {3};
  its.on_pause = [&] {
    if (its.pauses == 1) its.at.slots = {}, its.at.tokens = {};  // destroyed
    if (its.pauses == 3) its.at.held = {};
  };
  BOOST_TEST(!its.run(kind::wait_until_drained));
  BOOST_TEST(its.pauses == 3);
}

// --- Refusals and outages.

BOOST_AUTO_TEST_CASE(without_a_semaphore_there_is_nothing_to_change_or_to_wait_for) {
  for (const kind what : {kind::grow, kind::shrink, kind::wait_until_drained}) {
    administration its;
    BOOST_TEST(its.run(what, 1) == error::no_semaphore);
  }
  administration its;
  BOOST_TEST(!its.run(kind::destroy));
  BOOST_TEST(!its.run(kind::wait_until_released, 1));
}

BOOST_AUTO_TEST_CASE(numbers_that_no_semaphore_has_are_refused_before_any_request) {
  for (const kind what : {kind::create, kind::grow, kind::shrink})
    for (const std::uint32_t number : {0u, 1001u, 4'000'000'000u}) {
      administration its;
      BOOST_TEST(its.run(what, number) == error::invalid_limit);
      BOOST_TEST(its.asked.empty());
    }
  administration its;
  BOOST_TEST(its.run(kind::destroy, 1001) == error::invalid_limit);
  BOOST_TEST(its.run(kind::wait_until_released, 0) == error::invalid_option);
  BOOST_TEST(its.run(kind::wait_until_released, 1001) == error::invalid_option);
  BOOST_TEST(its.asked.empty());
}

BOOST_AUTO_TEST_CASE(no_semaphore_grows_above_the_largest) {
  administration its(queues::with(999));
  its.now += 1h;
  BOOST_TEST(!its.run(kind::grow, 1));
  BOOST_TEST(its.count() == 1000u);
  BOOST_TEST(its.run(kind::grow, 1) == error::invalid_limit);
  BOOST_TEST(its.count() == 1000u);
}

BOOST_AUTO_TEST_CASE(more_slots_than_any_semaphore_has_are_refused) {
  for (const kind what : {kind::create, kind::grow, kind::shrink, kind::destroy, kind::inspect}) {
    administration its(queues::with(1001));
    BOOST_TEST(its.run(what, 1) == error::not_a_semaphore);
    BOOST_TEST(its.count() == 1001u);
  }
}

BOOST_AUTO_TEST_CASE(another_administrator_is_waited_for) {
  administration its;
  its.at.locked_times = 5;
  BOOST_TEST(!its.run(kind::create, 1));
  BOOST_TEST(its.pauses == 5);
}

BOOST_AUTO_TEST_CASE(another_administrator_who_stays_is_an_error) {
  administration its;
  its.at.locked_times = 100'000;
  const protocol::time_point before = its.now;
  BOOST_TEST(its.run(kind::create, 1) == error::in_use);
  BOOST_TEST((its.now - before > 9s));
  BOOST_TEST((its.now - before <= 10s));
}

BOOST_AUTO_TEST_CASE(a_broker_that_cannot_be_reached_is_tried_again) {
  for (const kind what : {kind::create, kind::wait_until_released, kind::inspect}) {
    administration its;
    its.unreachable_times = 3;
    BOOST_TEST(!its.run(what, 1));
    its.unreachable_times = 1'000'000;
    const protocol::time_point before = its.now;
    BOOST_TEST(its.run(what, 1) == error::unreachable);
    BOOST_TEST((its.now - before > 8s));
    BOOST_TEST((its.now - before < 11s));
  }
}

BOOST_AUTO_TEST_CASE(after_the_end_of_a_connection_what_can_be_repeated_is_repeated) {
  for (std::size_t at = 1; at <= 17; ++at) {
    BOOST_TEST_CONTEXT("request " << at) {
      administration creating;
      creating.lost_at = at;
      BOOST_TEST(!creating.run(kind::create, 2));
      BOOST_TEST(creating.count() == 2u);
      BOOST_TEST(!creating.at.mark);
      administration destroying(queues::with(2));
      destroying.lost_at = at;
      BOOST_TEST(!destroying.run(kind::destroy));
      BOOST_TEST(destroying.at.tokens.empty());
    }
  }
  for (const kind what : {kind::grow, kind::shrink}) {
    administration its(queues::with(2));
    its.lost_at = 3;  // nothing has been changed
    BOOST_TEST(!its.run(what, 1));
    BOOST_TEST(its.count() == (what == kind::grow ? 3u : 1u));
    its.at = queues::with(2);
    its.lost_at = 6;
    BOOST_TEST(its.run(what, 1) == (what == kind::grow ? error_code() : error::connection_lost));
    its.at = queues::with(2);
    its.lost_at = 8;
    BOOST_TEST(its.run(what, 1) == (what == kind::grow ? error::connection_lost : error_code()));
  }
}

BOOST_AUTO_TEST_CASE(an_answer_that_nobody_expects_ends_the_command) {
  for (const auto what : {broker_answer::kind::locked, broker_answer::kind::differs}) {
    broker_command_run its({kind::inspect, "jobs", 0, 10s}, 1, protocol::time_point(1h));
    its.begin(protocol::time_point(1h));
    its.connected({}, protocol::time_point(1h));
    its.answered(refused(broker_answer::kind::missing), protocol::time_point(1h));
    const broker_next_step next = its.answered(refused(what), protocol::time_point(1h));
    BOOST_REQUIRE(std::holds_alternative<broker_step::done>(next));
    BOOST_TEST(std::get<broker_step::done>(next).why.code == error::not_a_semaphore);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test

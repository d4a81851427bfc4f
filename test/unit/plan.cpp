// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/plan.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::protocol;

namespace {

using names = std::vector<std::string>;

/// A semaphore with these holders, alive or not, and these live contenders in queue order. A name in capitals is a
/// contender of HashiCorp's Go client.
snapshot semaphore(names holders, const names& alive) {
  snapshot s;
  s.index = 100;
  s.lock_index = 50;
  s.record = {record_form::map, 2, std::move(holders)};
  std::uint64_t index = 10;
  for (const std::string& each : alive) {
    const bool go = each.front() >= 'A' && each.front() <= 'Z';
    s.contenders.insert({each, {}, go ? semaphore_flags : contender_magic, index, index});
    ++index;
  }
  return s;
}

names of(const std::vector<const contender*>& list) {
  names sessions;
  for (const contender* each : list) sessions.push_back(each->session);
  return sessions;
}

struct expected {
  names holders{}, granted{}, left_free{};
  std::uint32_t free = 0;
};

void check(const snapshot& s, const plan_rules& rules, const expected& e) {
  const grant_plan next = plan(s, rules);
  BOOST_TEST(next.record.limit == rules.limit);
  BOOST_TEST(next.record.holders == e.holders, boost::test_tools::per_element());
  BOOST_TEST(of(next.granted) == e.granted, boost::test_tools::per_element());
  BOOST_TEST(of(next.left_free) == e.left_free, boost::test_tools::per_element());
  BOOST_TEST(next.free == e.free);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plan)

BOOST_AUTO_TEST_CASE(nobody_waits) {
  check(semaphore({}, {}), {.limit = 2}, {.free = 2});
  check(semaphore({"a"}, {"a"}), {.limit = 2}, {.holders = {"a"}, .free = 1});
  check(semaphore({"a", "b"}, {"a", "b"}), {.limit = 2}, {.holders = {"a", "b"}});
}

BOOST_AUTO_TEST_CASE(free_slots_go_to_the_queue_in_order) {
  check(semaphore({"a"}, {"z", "a", "c", "b"}), {.limit = 2}, {.holders = {"a", "z"}, .granted = {"z"}});
  check(semaphore({}, {"z", "c", "b"}), {.limit = 2}, {.holders = {"c", "z"}, .granted = {"z", "c"}});
  check(semaphore({}, {"z"}), {.limit = 2}, {.holders = {"z"}, .granted = {"z"}, .free = 1});
}

BOOST_AUTO_TEST_CASE(a_full_semaphore_grants_nobody) {
  check(semaphore({"a", "b"}, {"a", "b", "c"}), {.limit = 2}, {.holders = {"a", "b"}});
}

BOOST_AUTO_TEST_CASE(the_dead_are_pruned_and_replaced) {
  check(semaphore({"a", "dead"}, {"a", "c", "d"}), {.limit = 2}, {.holders = {"a", "c"}, .granted = {"c"}});
  check(semaphore({"dead1", "dead2", "dead3"}, {}), {.limit = 2}, {.free = 2});
}

BOOST_AUTO_TEST_CASE(the_dead_whose_lock_delay_runs_still_count) {
  check(semaphore({"a", "dead"}, {"a", "c"}), {.limit = 2, .spared = {"dead"}}, {.holders = {"a", "dead"}});
  check(semaphore({"a"}, {"a"}), {.limit = 2, .spared = {"gone already"}}, {.holders = {"a"}, .free = 1});
}

BOOST_AUTO_TEST_CASE(the_leaving_neither_hold_nor_wait) {
  check(semaphore({"a", "b"}, {"a", "b", "c", "d"}), {.limit = 2, .leaving = {"a", "c"}},
        {.holders = {"b", "d"}, .granted = {"d"}});
  check(semaphore({"dead"}, {}), {.limit = 1, .leaving = {"dead"}, .spared = {"dead"}}, {.free = 1});
}

BOOST_AUTO_TEST_CASE(a_slot_stays_free_for_a_contender_that_takes_it_itself) {
  check(semaphore({"a"}, {"a", "GO", "c"}), {.limit = 2}, {.holders = {"a"}, .left_free = {"GO"}});
  check(semaphore({}, {"GO", "c", "d"}), {.limit = 2}, {.holders = {"c"}, .granted = {"c"}, .left_free = {"GO"}});
  check(semaphore({}, {"GO"}), {.limit = 2}, {.left_free = {"GO"}, .free = 1});
}

BOOST_AUTO_TEST_CASE(who_had_its_chance_is_passed_over) {
  check(semaphore({"a"}, {"a", "GO", "c"}), {.limit = 2, .passed_over = {"GO"}},
        {.holders = {"a", "c"}, .granted = {"c"}});
  check(semaphore({}, {"GO", "OG"}), {.limit = 1, .passed_over = {"GO"}}, {.left_free = {"OG"}});
}

BOOST_AUTO_TEST_CASE(who_is_doubted_comes_last) {
  const names doubted{"a", "b"};
  check(semaphore({}, {"a", "b", "c", "d"}), {.limit = 1, .doubted = doubted}, {.holders = {"c"}, .granted = {"c"}});
  check(semaphore({}, {"a", "b", "c"}), {.limit = 2, .doubted = doubted},
        {.holders = {"a", "c"}, .granted = {"c", "a"}});
  check(semaphore({}, {"a", "b"}), {.limit = 3, .doubted = doubted},
        {.holders = {"a", "b"}, .granted = {"a", "b"}, .free = 1});
  check(semaphore({}, {"a", "b", "c"}), {.limit = 3, .doubted = doubted, .grants_max = 2},
        {.holders = {"a", "c"}, .granted = {"c", "a"}});
  snapshot s = semaphore({}, {"a", "b", "c", "d"});
  s.complete_to = 100;
  const grant_plan next = holdfast::protocol::plan(s, {.limit = 1, .doubted = doubted});
  BOOST_TEST(of(next.after.next) == names{"d"}, boost::test_tools::per_element());
  BOOST_TEST(next.after.behind == 2u);
}

BOOST_AUTO_TEST_CASE(a_go_holder_holds_like_any_other) {
  check(semaphore({"GO"}, {"GO", "c"}), {.limit = 2}, {.holders = {"GO", "c"}, .granted = {"c"}});
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_one_transaction_stays_free_for_those_who_wait) {
  check(semaphore({}, {"a", "b", "c"}), {.limit = 3, .grants_max = 2}, {.holders = {"a", "b"}, .granted = {"a", "b"}});
  check(semaphore({}, {"a"}), {.limit = 3, .grants_max = 0}, {});
  check(semaphore({}, {"a", "b"}), {.limit = 3, .grants_max = 2},
        {.holders = {"a", "b"}, .granted = {"a", "b"}, .free = 1});
}

BOOST_AUTO_TEST_CASE(a_lower_limit_takes_no_slot_away) {
  check(semaphore({"a", "b", "c"}, {"a", "b", "c", "d"}), {.limit = 2}, {.holders = {"a", "b", "c"}});
}

BOOST_AUTO_TEST_CASE(a_closed_record_grants_nobody_and_leaves_nothing_free) {
  for (const names& alive : {names{"a"}, names{"a", "c", "d"}, names{"a", "GO", "c"}}) {
    snapshot s = semaphore({"a"}, alive);
    s.record.closed = true;
    check(s, {.limit = 3}, {.holders = {"a"}});
    check(s, {.limit = 3, .leaving = {"a"}}, {});
    BOOST_TEST(holdfast::protocol::plan(s, {.limit = 3}).record.closed);
  }
}

BOOST_AUTO_TEST_CASE(a_mark_stays_as_long_as_its_holder) {
  snapshot s = semaphore({"a", "b", "dead"}, {"a", "b", "c"});
  s.record.revoked = {"a", "b", "c", "dead"};
  BOOST_TEST(holdfast::protocol::plan(s, {.limit = 3, .leaving = {"b"}}).record.revoked == (names{"a"}),
             boost::test_tools::per_element());
  BOOST_TEST(holdfast::protocol::plan(s, {.limit = 3, .spared = {"dead"}}).record.revoked == (names{"a", "b", "dead"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(keeps_the_form_of_the_record) {
  snapshot s = semaphore({"a"}, {"a"});
  s.record.form = record_form::list;
  BOOST_TEST((holdfast::protocol::plan(s, {.limit = 2}).record.form == record_form::list));
}

BOOST_AUTO_TEST_SUITE_END()

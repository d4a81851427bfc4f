// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <iterator>
#include <string>

#include "sim/support/interleavings.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;

namespace {

/// A build with a sanitizer explores only the first states of each setting.
const bool whole = !is_slow_build();
const bool all = std::getenv("HOLDFAST_ALL_INTERLEAVINGS") != nullptr;

using order = given_order::kind;

std::string words(const std::vector<given_order>& orders) {
  std::string text;
  for (const given_order& each : orders) {
    static const char* const names[] = {"resize to ", "close", "open", "revoke", "evict"};
    text += std::string(", ") + names[static_cast<int>(each.what)];
    if (each.what == order::resize) text += std::to_string(each.limit);
  }
  return text;
}

std::string words(const interleaving_options& options) {
  return std::to_string(options.contenders) + " contenders, " +
         (options.mutex ? "a mutex" : "limit " + std::to_string(options.limit)) +
         (options.numbered ? ", numbered" : "") + (options.one_fault ? ", one fault" : "") +
         (options.watch_all_max == 0 ? ", directed watches" : "") + words(options.orders);
}

/// Adds up what a test case has explored, and prints that at the end.
struct search {
  boost::json::object figures{};
  std::uint64_t settings = 0, states = 0, runs = 0;

  ~search() {
    if (settings != 0) figures.insert({{"settings", settings}, {"states", states}, {"runs", runs}});
    print_figures(figures);
  }
  void check(interleaving_options options) {
    if (!whole) options.states_max = 4'000;
    const std::string what = words(options);
    const interleaving_result all = explore(options);
    BOOST_TEST(all.violation == "", what << ": " << all.violation << "\n" << all.story);
    BOOST_TEST((all.complete || !whole), what << ": not all runs were looked at");
    BOOST_TEST(all.runs > 100u, what << ": hardly anything was looked at");
    BOOST_TEST_MESSAGE(what << ": " << all.states << " states, " << all.runs << " runs");
    ++settings;
    states += all.states;
    runs += all.runs;
  }
  /// Checks that the search finds the bug by a guarantee that it breaks. The setting must be clean without the bug.
  void check_found(seeded_bug bug, interleaving_options options) {
    options.bug = bug;
    const interleaving_result found = explore(options);
    const auto& what = *std::find_if(std::begin(seeded_bugs), std::end(seeded_bugs),
                                     [&](const auto& each) { return each.bug == bug; });
    BOOST_TEST((found.broken && what.breaks.contain(*found.broken)),
               what.name << " was not found by what it breaks, but in " << found.states
                         << " states: " << (found.broken ? found.violation : "nothing"));
    BOOST_TEST_MESSAGE(what.name << ": " << found.states << " states: " << found.violation);
    figures[what.name] = found.states;
  }
};

const interleaving_options with_a_fault{.contenders = 2, .limit = 1, .one_fault = true};
const interleaving_options while_asked_for_a_slot{.limit = 1, .orders = {{order::revoke}}};
const interleaving_options while_the_limit_falls{.limit = 2, .orders = {{order::resize, 1}}};
const interleaving_options while_closed_and_opened{.limit = 1, .orders = {{order::close}, {order::open}}};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(exhaustive, search)

// Each case uses one way of watching. With HOLDFAST_ALL_INTERLEAVINGS=1 it uses both, and more settings.

BOOST_AUTO_TEST_CASE(two_contenders_and_one_fault) {
  for (const std::uint32_t limit : {1u, 2u}) {
    check({.contenders = 2, .limit = limit, .one_fault = true});
    if (all) check({.contenders = 2, .limit = limit, .one_fault = true, .watch_all_max = 0});
  }
}

BOOST_AUTO_TEST_CASE(two_contenders_of_a_mutex_and_one_fault) {
  check({.contenders = 2, .mutex = true, .one_fault = true, .watch_all_max = 0});
  if (all) check({.contenders = 2, .mutex = true, .one_fault = true});
}

BOOST_AUTO_TEST_CASE(two_contenders_of_numbered_slots_and_one_fault) {
  for (const std::uint32_t limit : {1u, 2u}) {
    check({.limit = limit, .numbered = true, .one_fault = true});
    if (all) check({.limit = limit, .numbered = true, .one_fault = true, .watch_all_max = 0});
  }
}

/// An operator gives one or two commands meanwhile.
BOOST_AUTO_TEST_CASE(two_contenders_and_an_operator) {
  for (const interleaving_options& each : {while_asked_for_a_slot, while_the_limit_falls}) check(each);
  if (!all) return;
  const interleaving_options others[] = {
      while_closed_and_opened,
      {.limit = 1, .watch_all_max = 0, .orders = {{order::revoke}}},
      {.limit = 1, .watch_all_max = 0, .orders = {{order::close}, {order::open}}},
      {.limit = 2, .watch_all_max = 0, .orders = {{order::resize, 1}}},
      {.limit = 1, .watch_all_max = 0, .orders = {{order::resize, 2}}},
      {.limit = 1, .orders = {{order::resize, 2}}},
      {.limit = 1, .watch_all_max = 0, .orders = {{order::evict}}},
      {.limit = 1, .orders = {{order::evict}}},
  };
  for (const interleaving_options& each : others) check(each);
}

/// The limit is one. With a limit of two, the search had not ended after eight minutes.
BOOST_AUTO_TEST_CASE(three_contenders) {
  check({.contenders = 3});
  if (all) check({.contenders = 3, .watch_all_max = 0});
}

/// A search that finds nothing proves nothing, unless it finds bugs that are there.
BOOST_AUTO_TEST_CASE(seeded_bugs_are_found) {
  for (const seeded_bug bug :
       {seeded_bug::unguarded_record, seeded_bug::one_slot_too_many, seeded_bug::failures_never_arrive,
        seeded_bug::no_prune, seeded_bug::grant_dropped_after_cancel, seeded_bug::watch_never_answers}) {
    if (!whole && bug == seeded_bug::failures_never_arrive) continue;  // this one takes the most states by far
    check_found(bug, with_a_fault);
  }
}

BOOST_AUTO_TEST_CASE(seeded_bugs_of_orders_are_found) {
  const std::pair<seeded_bug, interleaving_options> all[] = {
      {seeded_bug::closed_ignored, while_closed_and_opened}, {seeded_bug::closed_dropped, while_closed_and_opened},
      {seeded_bug::shrink_ignored, while_the_limit_falls},   {seeded_bug::shrink_takes_slots, while_the_limit_falls},
      {seeded_bug::order_unguarded, while_the_limit_falls},
  };
  for (const auto& [bug, options] : all) {
    if (!whole && bug != seeded_bug::closed_dropped && bug != seeded_bug::shrink_takes_slots) continue;
    check_found(bug, options);
  }
}

BOOST_AUTO_TEST_SUITE_END()

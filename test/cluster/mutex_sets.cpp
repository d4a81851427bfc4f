// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Mutex sets under faults for which semaphores have suites of their own. Each lock is judged separately.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <set>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(mutex_sets)

constexpr int locks = 8;

/// The number of different locks that `who` has entered since then.
std::size_t entered(const stage& play, const std::string& who, stage::time_point since) {
  std::set<int> which;
  for (const journal_entry& each : play.entries())
    if (each.who == who && each.what == journal_event::enter && each.at >= since) which.insert(each.slot);
  return which.size();
}

BOOST_AUTO_TEST_CASE(the_holders_agent_is_frozen) {
  cluster consul(1);
  stage play("set-frozen-agent", 1, locks);
  check_that_a_frozen_agent_holds_nothing(
      play, consul, {.coroutines = locks, .set = true}, [&](const std::string& who, stage::time_point since) {
        play.until(who + " has all", grant_bound, [&] { return entered(play, who, since) == locks; });
      });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_the_leader_and_of_a_worker) {
  cluster consul(1);
  stage play("set-kill", 1, locks);
  start_one_at_each_agent(play, consul, 1, nullptr, {.coroutines = locks, .set = true});
  play.until_entered(play.names(), {}, grant_bound);
  check_that_work_goes_on_without_the_leader(play, consul);
  const std::string victim = at_client(0);
  play.kill(victim);
  const auto killed = play.fault("a worker killed");
  for (const std::string& each : play.names())
    play.until(each + " has had each lock", 2 * grant_bound, [&] { return entered(play, each, killed) == locks; });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

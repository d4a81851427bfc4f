// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Elections and their observers, while leaders' processes and agents fail, and while Consul has no leader.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"
#include "support/participant.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> observers = {"observer-1", "observer-2"};

void start_observers(stage& play, const agent& one, const agent& other) {
  play.start(observers[0], worker_options{.agent = one.address(), .observer = true});
  play.start(observers[1], worker_options{.agent = other.address(), .observer = true});
}

/// Waits until each observer has been notified since then that `who` leads. If `who` is empty, any leader will do.
void until_all_see(stage& play, const std::string& who, stage::time_point since) {
  for (const std::string& each : observers)
    play.until_written(each + " sees who leads: " + who, grant_bound, [&](const journal_entry& seen) {
      const bool fits = who.empty() ? seen.words != "nobody" : seen.words == who;
      return seen.what == journal_event::saw && seen.who == each && seen.at >= since && fits;
    });
}

/// Checks that no observer is notified of an earlier term, or of an earlier value, than before.
void check_that_nobody_saw_the_past(const stage& play) {
  std::map<std::string, std::uint64_t> last;
  for (const journal_entry& each : play.entries()) {
    if (each.what != journal_event::saw || each.words == "nobody") continue;
    BOOST_TEST(each.token.grant > last[each.who], each.who << " goes back to " << each.words);
    last[each.who] = each.token.grant;
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(elections)

BOOST_AUTO_TEST_CASE(the_leaders_process_is_killed_and_the_next_ones_agent_is_frozen) {
  cluster consul(2);
  stage play("elections", 1);
  agent& frozen = consul.client(0);
  worker_options candidate{.coroutines = 1, .hold = 1h, .outage_grace = 1h, .election = true};
  const std::vector<const agent*> agents = {&consul.server(0), &frozen, &consul.server(1)};
  const std::vector<std::string> queue = {"first", "second", "third"};
  for (std::size_t i = 0; i != queue.size(); ++i) {
    candidate.agent = agents[i]->address();
    play.start(queue[i], candidate);
    play.until(queue[i] + " stands", grant_bound,
               [&] { return contenders(consul.server(0), play.prefix()).size() == i + 1; });
  }
  start_observers(play, consul.client(1), consul.server(2));
  until_all_see(play, "first", {});

  const auto killed = play.fault("the leader's process is killed");
  play.kill("first");
  play.until_entered({"second"}, killed, grant_bound);
  until_all_see(play, "second", killed);

  const auto since = play.fault("the leader's agent is frozen", {"second"});
  frozen.freeze();
  play.until_entered({"third"}, since, grant_bound);
  until_all_see(play, "third", since);
  frozen.thaw();
  consul.wait_until_healthy();
  play.mended("the agent goes on", {"second"});
  play.until_written("the second has been told", grant_bound, [](const journal_entry& each) {
    return each.who == "second" && each.what == journal_event::lost;
  });
  check_that_nobody_saw_the_past(play);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
  BOOST_TEST(shown.entered == 3u);
  BOOST_TEST(shown.lost == 1u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_consuls_leader) {
  cluster consul(2);
  stage play("elections-leader-kill", 1);
  start_one_at_each_agent(play, consul, 2, nullptr, {.coroutines = 1, .election = true});
  start_observers(play, consul.client(0), consul.client(1));
  play.until_entered(play.names(), {}, grant_bound);
  const int its = consul.leader();
  agent& leader = consul.server(its);
  const auto begun = journal_now();
  stage::time_point mended{};
  check_that_work_goes_on(play, consul,
                          {at_server(its), "leader killed", "leader restarted", [&] { leader.kill(); },
                           [&] {
                             until_all_see(play, {}, begun);
                             leader.restart();
                             mended = journal_now();
                           }});
  until_all_see(play, {}, mended);
  check_that_nobody_saw_the_past(play);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

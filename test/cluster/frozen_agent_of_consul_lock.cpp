// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The case of frozen_agent.cpp with HashiCorp's `consul lock -n 2`, with the same journal and the same judge. The test
// asserts no guarantee, because the program is not ours. It shows the figure to beat.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"
#include "support/figures.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

/// How long the test watches after the waiters were granted. Only the end of the freeze would end the overlap.
constexpr std::chrono::seconds look_on{20};

void start_consul_lock(stage& play, const std::string& who, const agent& through) {
  process_options child;
  child.command = {consul_program().string(),
                   "lock",
                   "-http-addr=" + through.address(),
                   "-n=" + std::to_string(play.limit()),
                   "-child-exit-code",
                   "-shell=false",
                   play.prefix(),
                   sibling_program("cluster_worker"),
                   "--inside",
                   "--log=" + play.log_file().string(),
                   "--name=" + who};
  journal_entry asked;
  asked.at = journal_now();
  asked.who = who;
  journal(play.log_file()).write(asked);
  play.start(who, std::move(child));
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(frozen_agent_of_consul_lock)

BOOST_AUTO_TEST_CASE(what_consul_lock_does) {
  // `consul lock` makes its own session, by Consul's defaults: 15 s, and bound to the node's health.
  constexpr std::chrono::seconds patience{60};
  cluster consul(1);
  stage play("frozen-agent-of-consul-lock", 2);
  agent& frozen = consul.client(0);
  const agent& server = consul.server(consul.leader());
  for (const std::string who : {"holder-1", "holder-2"}) start_consul_lock(play, who, frozen);
  play.until_entered({"holder-1", "holder-2"}, {}, patience);
  for (const std::string who : {"waiter-1", "waiter-2"}) start_consul_lock(play, who, server);
  play.until("all wait in Consul", patience, [&] { return contenders(server, play.prefix()).size() == 4; });

  const auto since = play.fault("the client agent is frozen");
  frozen.freeze();
  play.until_entered({"waiter-1", "waiter-2"}, since, patience);
  const auto granted = std::chrono::duration_cast<std::chrono::milliseconds>(journal_now() - since);
  std::this_thread::sleep_for(look_on);  // the figure is of this time: no event ends it
  const auto end_of_look = play.mended("the end of the look");
  const verdict shown = play.end_as_it_may();
  std::cout << "consul lock: the waiters were granted " << granted.count() << " ms after the freeze; "
            << shown.believers_max << " believed in " << play.limit() << " slots, too many for "
            << std::chrono::duration_cast<std::chrono::milliseconds>(shown.overlap).count() << " of the next "
            << std::chrono::milliseconds(look_on).count() << " ms" << std::endl;
  print_figures({{"granted_after_ms", granted.count()}, {"watched_ms", std::chrono::milliseconds(look_on).count()}});
  // A process that was stopped early, by `consul lock` or from outside of this test, makes the figure smaller.
  for (const journal_entry& each : play.entries())
    if (each.what == journal_event::leave && each.at < end_of_look)
      std::cout << "  " << each.who << " ended "
                << std::chrono::duration_cast<std::chrono::milliseconds>(each.at - since).count()
                << " ms after the freeze: " << each.words << std::endl;
  BOOST_TEST(shown.entered == 4u);
  BOOST_TEST(play.entries().size() >= 9u);  // four asked, four entered, and the freeze
}

BOOST_AUTO_TEST_SUITE_END()

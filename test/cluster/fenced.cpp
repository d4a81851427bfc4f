// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// No lease can stop a process that is paused after its last check of the slot, and writes when it goes on. The fencing
// token can, at the resource. The workers write to two stores, one with a fence and one without.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <iostream>
#include <string>

#include "cluster/support/cluster.hpp"
#include "cluster/support/fenced_store.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"
#include "support/figures.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(fenced)

BOOST_AUTO_TEST_CASE(a_paused_holders_late_write_is_refused) {
  constexpr int rounds = 3;
  cluster consul(1);
  stage play("fenced", 1);
  const fenced_store with_fence(true), without(false);
  worker_options options{.agent = consul.client(0).address(), .coroutines = 1, .hold = 500ms};
  options.stores = {with_fence.address(), without.address()};
  play.start("one", options);
  play.start("other", options);
  play.until_entered(play.names(), {}, grant_bound);
  auto since = journal_now();
  for (int late = 0; late != rounds;) {
    const journal_entry holder = play.until_written("somebody is going to write", grant_bound, [&](const auto& each) {
      return each.what == journal_event::checked && each.at > since;
    });
    since = holder.at;
    play.note(holder.who, journal_event::away, "paused");
    play.worker(holder.who).freeze();
    if (!without.has_seen(holder.token)) {  // otherwise the holder was quicker than the freeze: try again
      play.fault("holder paused");
      const auto paused = journal_now();
      play.until_written("another has taken its place, and written", grant_bound, [&](const auto& each) {
        return each.what == journal_event::wrote && each.who != holder.who && each.at > paused;
      });
      ++late;
    }
    play.worker(holder.who).thaw();
    play.note(holder.who, journal_event::back);
    play.mended("holder goes on");
    play.until_written("it has written, without looking", grant_bound, [&](const auto& each) {
      return each.what == journal_event::wrote && each.who == holder.who && each.at > holder.at;
    });
    since = journal_now();
  }
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
  BOOST_TEST(with_fence.refused() == rounds);
  BOOST_TEST(with_fence.stale_taken() == 0);
  BOOST_TEST(without.refused() == 0);
  BOOST_TEST(without.stale_taken() == rounds);
  std::cout << "fenced: " << rounds << " holders paused past their lease; with a fence " << with_fence.taken()
            << " writes taken, " << with_fence.refused() << " refused, " << with_fence.stale_taken()
            << " stale ones taken; without " << without.taken() << " taken, " << without.stale_taken()
            << " of them stale" << std::endl;
  print_figures({{"paused", rounds},
                 {"fenced_taken", with_fence.taken()},
                 {"fenced_refused", with_fence.refused()},
                 {"taken", without.taken()},
                 {"stale_taken", without.stale_taken()}});
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An io_context may be destroyed at any moment, with waiters, holders and pending requests. Nothing hangs, nothing
// leaks, and handles that outlive it are safe. The sanitizers check that.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <iostream>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

/// Handles that outlive the context.
struct survivors {
  std::mutex mutex;
  std::vector<slot> slots;
  std::vector<std::stop_token> tokens;
  std::vector<std::unique_ptr<participant>> participants;

  void keep(slot held) {
    const std::lock_guard lock(mutex);
    tokens.push_back(held.stop_token());
    slots.push_back(std::move(held));
  }
};

asio::awaitable<void> hold_in_the_frame(participant& p) {
  slot held = co_await p.sem.acquire();
  const loss_reason reason = co_await held.wait_lost();
  static_cast<void>(reason);
}

asio::awaitable<void> hold_outside(participant& p, survivors& outside) {
  slot held = co_await p.sem.acquire();
  outside.keep(std::move(held));
}

asio::awaitable<void> cycle(participant& p) {
  for (;;) {
    slot held = co_await p.sem.acquire();
    co_await pause(200us);
    co_await held.release();
  }
}

asio::awaitable<void> cycle_with_slot(participant& p) {
  auto body = [](slot&) -> asio::awaitable<void> { co_await pause(300us); };
  for (;;) co_await with_slot(p.sem, body);
}

/// A semaphore in a coroutine's frame, like most semaphores.
asio::awaitable<void> own_semaphore(std::string address, std::string prefix) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  participant p(ex, address, calm(prefix, 2));
  slot held = co_await p.sem.acquire();
  slot more = co_await p.sem.acquire(2);
}

asio::awaitable<void> close_after(participant& p, std::chrono::microseconds time) {
  co_await pause(time);
  co_await p.sem.close();
}

struct reached {
  int with_waiters = 0, with_holders = 0, with_surviving_slots = 0, with_nothing = 0;
};

void one_teardown(agent& a, std::minstd_rand& random, int threads, reached& what) {
  survivors outside;
  const std::string prefix = unique_prefix("teardown");
  {
    asio::io_context io(threads);
    for (int i = 0; i < 3; ++i)
      outside.participants.push_back(std::make_unique<participant>(io.get_executor(), a, calm(prefix, 2)));
    const auto spawn = [&](asio::awaitable<void> body) {
      asio::co_spawn(asio::make_strand(io), std::move(body), asio::detached);
    };
    participant &p = *outside.participants[0], &q = *outside.participants[1], &r = *outside.participants[2];
    spawn(cycle(p));
    spawn(cycle(q));
    spawn(cycle_with_slot(q));
    spawn(hold_in_the_frame(r));
    spawn(hold_outside(p, outside));
    spawn(hold_outside(q, outside));
    spawn(own_semaphore(a.address(), prefix));
    if (random() % 3 == 0) spawn(close_after(p, std::chrono::microseconds(random() % 10'000)));

    const auto life = std::chrono::microseconds(random() % 20'000) * (scaled(1ms) / 1ms);
    if (threads == 1) {
      io.run_for(life);
    } else {
      std::vector<std::thread> running;
      for (int i = 0; i < threads; ++i) running.emplace_back([&io] { io.run(); });
      std::this_thread::sleep_for(life);
      io.stop();
      for (std::thread& each : running) each.join();
    }
    bool nothing = true;
    for (const auto& each : outside.participants) {
      const lock_statistics levels = each->sem.statistics();
      what.with_waiters += levels.waiting != 0;
      what.with_holders += levels.held != 0;
      nothing = nothing && levels.sessions == 0;
    }
    what.with_nothing += nothing;
    // The user may destroy it before the context or after it.
    if (random() % 2 == 0) outside.participants.erase(outside.participants.begin());
  }
  what.with_surviving_slots += !outside.slots.empty();
  for (const slot& each : outside.slots) {
    BOOST_TEST(each.valid());
    BOOST_TEST(!each.held());
    BOOST_TEST((each.valid_for() == 0ns));
    BOOST_TEST((each.state() == slot_state::lost));
  }
  for (auto& each : outside.participants) {
    BOOST_TEST(each->sem.prefix() == prefix);
    static_cast<void>(each->sem.statistics());
    static_cast<void>(each->client.statistics());
  }
  slot moved;
  if (!outside.slots.empty()) moved = std::move(outside.slots.front());
  BOOST_TEST(!moved.held());
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(teardown)

BOOST_AUTO_TEST_CASE(a_context_is_destroyed_at_any_moment) {
  constexpr int times = 60;
  // Abandoned watches keep their connections at the agent until their wait ends: many more than users need.
  agent own(agent_options{.http_max_conns_per_client = 0});
  const unsigned seed = std::random_device()();
  std::minstd_rand random(seed);
  reached what;
  BOOST_TEST_CONTEXT("seed " << seed) {
    for (int i = 0; i < times; ++i) one_teardown(own, random, 1 + i % 3, what);
  }
  BOOST_TEST(what.with_waiters > 0);
  BOOST_TEST(what.with_holders > 0);
  BOOST_TEST(what.with_surviving_slots > 0);
  std::cout << "teardown: of " << times << " contexts, " << what.with_surviving_slots
            << " were survived by slots; semaphores had waiters " << what.with_waiters << " times, holders "
            << what.with_holders << " times; " << what.with_nothing << " contexts had nothing yet\n";
}

BOOST_AUTO_TEST_CASE(the_last_handles_go_while_another_thread_destroys_the_context) {
  agent& a = shared_agent();
  for (int i = 0; i < 100; ++i) {
    survivors outside;
    auto io = std::make_unique<asio::io_context>();
    const std::string prefix = unique_prefix("dropped");
    for (int each = 0; each < 2; ++each)
      outside.participants.push_back(std::make_unique<participant>(io->get_executor(), a, calm(prefix, 2)));
    for (const auto& each : outside.participants) asio::co_spawn(*io, hold_outside(*each, outside), asio::detached);
    const auto end = std::chrono::steady_clock::now() + scaled(30s);
    while (outside.slots.size() != 2 && std::chrono::steady_clock::now() < end) io->run_one_for(scaled(1s));
    BOOST_REQUIRE(outside.slots.size() == 2u);
    std::latch both(2);
    std::jthread dropping([&] {
      both.arrive_and_wait();
      outside.slots.clear();
      outside.participants.clear();
    });
    both.arrive_and_wait();
    io.reset();
  }
}

BOOST_AUTO_TEST_CASE(a_context_that_never_ran_is_destroyed) {
  survivors outside;
  {
    asio::io_context io;
    outside.participants.push_back(
        std::make_unique<participant>(io.get_executor(), "127.0.0.1:1", calm("never-ran", 1)));
    asio::co_spawn(io, hold_outside(*outside.participants[0], outside), asio::detached);
    outside.participants[0]->sem.acquire(asio::detached);
    outside.participants[0]->sem.close(asio::detached);
  }
  BOOST_TEST(outside.slots.empty());
}

BOOST_AUTO_TEST_CASE(operations_after_the_context_is_gone_drop_their_handlers) {
  survivors outside;
  const auto alive = std::make_shared<int>();
  {
    asio::io_context io;
    outside.participants.push_back(
        std::make_unique<participant>(io.get_executor(), shared_agent(), calm(unique_prefix("gone"), 1)));
    asio::co_spawn(io, hold_outside(*outside.participants[0], outside), asio::detached);
    const auto end = std::chrono::steady_clock::now() + scaled(30s);
    while (outside.slots.empty() && std::chrono::steady_clock::now() < end) io.run_one_for(scaled(1s));
  }
  BOOST_REQUIRE(outside.slots.size() == 1u);
  slot& held = outside.slots[0];
  BOOST_TEST(!held.held());
  participant& p = *outside.participants[0];
  bool called = false;
  held.wait_lost([alive, &called](error_code, loss_reason) { called = true; });
  held.release([alive, &called](error_code) { called = true; });
  p.sem.acquire([alive, &called](error_code, slot) { called = true; });
  p.client.get("key", [alive, &called](error_code, auto) { called = true; });
  p.client.close();
  p.sem.close([alive, &called](error_code) { called = true; });
  BOOST_TEST(!called);
  BOOST_TEST(alive.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_context_ends_by_itself_when_all_is_given_back) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("ends");
  asio::io_context io;
  bool done = false;
  auto use = [&]() -> asio::awaitable<void> {
    participant p(io.get_executor(), a, calm(prefix, 2));
    slot held = co_await p.sem.acquire();
    slot more = co_await p.sem.acquire();
    co_await held.release();
    done = true;
  };
  asio::co_spawn(io, use(), asio::detached);
  io.run_for(scaled(30s));
  BOOST_TEST(done);
  BOOST_TEST(io.stopped(), "something keeps the context running after the semaphore and its slots are gone");
  BOOST_TEST(is_clean(a, prefix));
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// One process with many coroutines has few sessions, few connections and few requests, and serves all in order.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

/// Many semaphores on one client, each with its slot held.
struct many_held {
  explicit many_held(consul::client c) : client(std::move(c)) {}

  asio::awaitable<void> add(semaphore_options options) {
    options.log = [this](const holdfast::log_event& event) { log.push_back(event.text()); };
    holdfast::semaphore& sem = semaphores.emplace_back(client, std::move(options));
    slot taken = co_await sem.acquire();
    slots.push_back(std::move(taken));
  }
  std::size_t held() const {
    return static_cast<std::size_t>(std::count_if(slots.begin(), slots.end(), [](const slot& s) { return s.held(); }));
  }

  consul::client client;
  std::vector<std::string> log;
  std::vector<holdfast::semaphore> semaphores;
  std::vector<slot> slots;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(pool)

ASYNC_TEST_CASE(a_hundred_semaphores_of_one_client_are_all_watched, 60s) {
  const agent own;
  const testing::proxy proxy(ex, own.address());
  const std::string prefix = unique_prefix("hundred");
  consul::config settings;
  settings.address = proxy.address();
  settings.blocking_max = 100;
  many_held all(consul::client(ex, settings));
  for (int i = 0; i < 100; ++i) co_await all.add(calm(prefix + std::to_string(i), 1));
  const bool watched = co_await happens_within(30s, [&] { return proxy.statistics().blocked == 100; });
  BOOST_TEST(watched, proxy.statistics().blocked << " of 100 are watched");
  BOOST_TEST(all.held() == 100u);
}

ASYNC_TEST_CASE(more_semaphores_than_watches_take_turns_and_lose_nothing, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("turns");
  consul::config settings;
  settings.address = a.address();
  settings.blocking_max = 2;
  many_held all(consul::client(ex, settings));
  for (int i = 0; i < 8; ++i) co_await all.add(hasty(prefix + std::to_string(i), 1, 2s));
  co_await pause(scaled(6s));  // several turns: a watch waits for as long as the TTL, at most
  BOOST_TEST(all.held() == 8u);
  for (const std::string& line : all.log) BOOST_ERROR("an operator would read: " << line);

  // Each still sees, in its turn, what only a look at the record tells.
  for (int i = 0; i < 8; ++i) a.del("/v1/kv/" + prefix + std::to_string(i) + "/.lock");
  const bool noticed = co_await happens_within(scaled(6s), [&] { return all.held() == 0; });
  BOOST_TEST(noticed, all.held() << " have not noticed");
}

ASYNC_TEST_CASE(the_longest_time_there_is_can_be_waited_for, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("longest"), 1));
  slot held = co_await p.sem.acquire();
  for (const std::chrono::nanoseconds time :
       {std::chrono::nanoseconds::max(), std::chrono::nanoseconds(24h * 365 * 290)}) {
    pending<slot> waiting(ex, p.sem.try_acquire_for(time));
    co_await pause(20ms);
    BOOST_TEST(!waiting.ready());
    let_go(held);
    const error_code ec = co_await waiting.wait();
    BOOST_TEST(!ec);
    held = waiting.take();
    BOOST_TEST(held.held());
  }
  slot none = co_await p.sem.try_acquire_for(std::chrono::nanoseconds::min());
  BOOST_TEST(!none.valid());
}

BOOST_AUTO_TEST_SUITE_END()

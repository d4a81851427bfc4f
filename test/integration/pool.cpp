// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// One process with many coroutines has few sessions, few connections and few requests, and serves all in order.

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

constexpr std::size_t coroutines = 10'000;
constexpr std::uint32_t limit = 4;

struct line_up {
  agent& a;
  std::string prefix;
  std::vector<std::size_t> order;
  std::vector<fencing_token> tokens;
  asio::steady_timer full;  // cancelled when the first `limit` are inside together
  crowd inside;
  std::size_t sessions_most = 0;
};

asio::awaitable<void> one_of_many(holdfast::semaphore& sem, std::size_t number, line_up& all) {
  slot held = co_await sem.acquire();
  all.order.push_back(number);
  all.tokens.push_back(held.fencing_token());
  all.inside.enter();
  all.sessions_most = std::max<std::size_t>(all.sessions_most, sem.statistics().sessions);
  if (number % 1000 == 0) all.sessions_most = std::max(all.sessions_most, sessions(all.a, all.prefix).size());
  if (number + 1 == limit) all.full.cancel();
  if (number + 1 < limit) co_await all.full.async_wait(as_result);  // the first show that every slot can be held
  all.inside.leave();
  co_await held.release();
}

/// Many semaphores on one client, each with its slot held.
struct many_held {
  explicit many_held(consul::client c) : client(std::move(c)) {}

  asio::awaitable<void> add(semaphore_options options) {
    options.log = [this](const std::string& line) { log.push_back(line); };
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

/// Requests that one cycle cost, for many cycles: renewals and watches, which come with time, are the few at the end.
std::uint64_t usual(std::vector<std::uint64_t> costs) {
  std::nth_element(costs.begin(), costs.begin() + static_cast<std::ptrdiff_t>(costs.size() / 2), costs.end());
  return costs[costs.size() / 2];
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(pool)

ASYNC_TEST_CASE(ten_thousand_coroutines_get_their_turn_in_the_order_they_came, 60s) {
  line_up all{.a = shared_agent(),
              .prefix = unique_prefix("ten-thousand"),
              .order = {},
              .tokens = {},
              .full{ex, asio::steady_timer::time_point::max()},
              .inside = {}};
  participant p(ex, all.a, calm(all.prefix, limit));
  companions running(ex);
  for (std::size_t i = 0; i < coroutines; ++i) running.start(one_of_many(p.sem, i, all));
  co_await running.join();

  BOOST_TEST(all.order.size() == coroutines);
  BOOST_TEST(std::is_sorted(all.order.begin(), all.order.end()));
  BOOST_TEST(all.inside.most() == static_cast<int>(limit));
  BOOST_TEST(all.sessions_most > 0u);
  BOOST_TEST(all.sessions_most <= limit);
  // Slots that one write granted may have equal tokens, but no more of them than there are slots. Each token counts the
  // handoffs from 0 and leaves none out.
  std::map<fencing_token, std::size_t> had;
  for (const fencing_token& each : all.tokens) ++had[each];
  for (const auto& [token, times] : had) {
    const auto before = had.find({token.grant, token.handoff - 1});
    const std::size_t at_most = token.handoff == 0 ? limit : before == had.end() ? 0 : before->second;
    BOOST_TEST(times <= at_most, token.to_string() << " was given " << times << " times, of " << at_most);
  }

  const consul::client_statistics used = p.client.statistics();
  const semaphore_statistics did = p.sem.statistics();
  BOOST_TEST(did.granted == coroutines);
  BOOST_TEST(did.handoffs >= coroutines - 10 * limit);
  BOOST_TEST(used.requests < coroutines / 10);
  BOOST_TEST(used.connections_opened <= 8u);
  std::cout << "pool: " << coroutines << " coroutines, limit " << limit << ": at most " << all.sessions_most
            << " sessions, " << used.connections_opened << " connections opened (" << used.connections_open
            << " open), " << used.requests << " requests, " << did.handoffs << " local handoffs\n";
  co_await p.sem.close();
  BOOST_TEST(is_clean(all.a, all.prefix));
}

ASYNC_TEST_CASE(an_uncontended_acquire_and_release_on_a_warm_session_is_two_requests, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("two-requests"), 1));
  slot warm = co_await p.sem.acquire();
  co_await warm.release();
  std::vector<std::uint64_t> costs;
  for (int i = 0; i < 101; ++i) {
    const auto before = p.client.statistics().requests;
    slot held = co_await p.sem.acquire();
    co_await held.release();
    costs.push_back(p.client.statistics().requests - before);
  }
  BOOST_TEST(*std::min_element(costs.begin(), costs.end()) == 2u);
  BOOST_TEST(usual(costs) == 2u);
}

ASYNC_TEST_CASE(a_local_handoff_is_no_request, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("no-request"), 1));
  slot held = co_await p.sem.acquire();
  co_await pause(50ms);  // for the watch
  const auto begun = p.client.statistics().requests;
  std::vector<std::uint64_t> costs;
  for (int i = 0; i < 1001; ++i) {
    pending<slot> next(ex, p.sem.acquire());
    const auto before = p.client.statistics().requests;
    co_await held.release();
    const error_code ec = co_await next.wait();
    BOOST_TEST(!ec);
    costs.push_back(p.client.statistics().requests - before);
    held = next.take();
  }
  BOOST_TEST(usual(costs) == 0u);
  BOOST_TEST(p.sem.statistics().handoffs == 1001u);
  BOOST_TEST(p.client.statistics().requests - begun < 100u);  // renewals and the watch, over all that time
  std::cout << "pool: " << p.client.statistics().requests - begun << " requests in 1001 local handoffs\n";
}

ASYNC_TEST_CASE(a_full_local_queue_refuses_the_next_at_once, 30s) {
  semaphore_options options = calm(unique_prefix("queue"), 1);
  options.tuning.waiters_max = 3;
  participant p(ex, shared_agent(), options);
  slot held = co_await p.sem.acquire();
  std::vector<std::unique_ptr<pending<slot>>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(std::make_unique<pending<slot>>(ex, p.sem.acquire()));
  auto [ec, none] = co_await p.sem.acquire(as_result);
  BOOST_TEST(ec == error::too_many_waiters);
  co_await held.release();
  for (auto& each : waiting) {
    const error_code served = co_await each->wait();
    BOOST_TEST(!served);
    each.reset();
  }
}

ASYNC_TEST_CASE(sixty_processes_share_one_agent, 90s) {
  // As many as the agent's bound of 200 connections from one address admits: each has two, and one for renewals.
  constexpr std::size_t processes = 60;
  const std::string prefix = unique_prefix("sixty");
  agent own;
  std::vector<std::unique_ptr<participant>> many;
  crowd inside;
  companions running(ex);
  int turns = 0;
  auto cycle = [&](participant& who) -> asio::awaitable<void> {
    slot held = co_await who.sem.acquire();
    inside.enter();
    co_await pause(1ms);
    inside.leave();
    ++turns;
    co_await held.release();
  };
  for (std::size_t i = 0; i < processes; ++i) {
    many.push_back(std::make_unique<participant>(ex, own, calm(prefix, 2)));
    running.start(cycle(*many[i]));
  }
  co_await running.join();
  BOOST_TEST(turns == static_cast<int>(processes));
  BOOST_TEST(inside.most() <= 2);
}

ASYNC_TEST_CASE(a_hundred_semaphores_of_one_client_are_all_watched, 60s) {
  const agent own;
  const testing::proxy proxy(ex, own.address());
  const std::string prefix = unique_prefix("hundred");
  consul::config settings;
  settings.address = proxy.address();
  settings.blocking_max = 100;
  many_held all(consul::client(ex, settings));
  for (int i = 0; i < 100; ++i) co_await all.add(calm(prefix + std::to_string(i), 1));
  const bool watched = co_await happens_within(scaled(5s), [&] { return proxy.statistics().blocked == 100; });
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

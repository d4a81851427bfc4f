// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An agent that cannot be reached, and very many requests that wait for it (doc/reference/consul.md, "Connections").

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/testing/proxy.hpp>
#include <optional>
#include <string>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

using namespace holdfast;
using namespace holdfast::test;

namespace {

struct tally {
  std::size_t waiting = 0;
  std::size_t unreachable = 0;
  std::size_t answered = 0;
  std::size_t failed_otherwise = 0;
};

asio::awaitable<void> ask(consul::client client, std::chrono::milliseconds patience, tally& all) {
  consul::read_options options;
  options.request.timeout = patience;
  ++all.waiting;
  auto [ec, answer] = co_await client.get("k", options, as_result);
  --all.waiting;
  ++(!ec ? all.answered : ec == error::unreachable ? all.unreachable : all.failed_otherwise);
}

/// Counts the attempts of the client to connect, all of which fail.
asio::awaitable<void> count_attempts(consul::client client, const tally& all, std::size_t& attempts) {
  auto last = client.health().last_failure_at;
  while (all.waiting != 0) {
    if (const auto now = client.health().last_failure_at; now != last) {
      ++attempts;
      last = now;
    }
    co_await pause(100us);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(outages)

ASYNC_TEST_CASE(ten_thousand_requests_do_not_each_try_to_connect, 60s) {
  constexpr std::size_t each = 5'000;
  testing::proxy front(shared_agent().address());
  consul::client client(ex, front.client_config());
  const auto before = front.statistics().accepted;
  front.stop();
  tally impatient, patient;
  std::size_t attempts = 0;
  for (std::size_t i = 0; i != each; ++i) {
    asio::co_spawn(ex, ask(client, scaled(3s), impatient), asio::detached);
    asio::co_spawn(ex, ask(client, scaled(40s), patient), asio::detached);
  }
  co_await until("all wait", [&] { return patient.waiting == each; });
  asio::co_spawn(ex, count_attempts(client, impatient, attempts), asio::detached);
  co_await until("the deadlines of a half are over", [&] { return impatient.waiting == 0; });
  BOOST_TEST(impatient.unreachable == each);
  // Pauses are random: between 0 and a bound that grows to 1 s. So one request makes about 10 attempts in 3 s.
  BOOST_TEST(attempts >= 2u);
  BOOST_TEST(attempts <= 100u);

  BOOST_TEST(patient.waiting == each);
  front.start();
  co_await until("the others are answered", [&] { return patient.waiting == 0; });
  BOOST_TEST(patient.answered == each);
  BOOST_TEST(front.statistics().accepted - before <= front.client_config().connections_max);
}

/// The times are long enough for an agent on a busy machine to answer.
ASYNC_TEST_CASE(a_time_limit_tells_an_outage_from_contention, 120s) {
  agent own;
  const std::string prefix = unique_prefix("time_limit");
  participant other(ex, own, calm(prefix, 1)), p(ex, own, calm(prefix, 1));
  slot held = co_await other.sem.acquire();
  const acquire_options late{.deadline = std::chrono::steady_clock::now() + 4s};
  const auto [busy, none] = co_await p.sem.acquire(late, as_result);
  BOOST_TEST(busy == error::would_be_late, busy.message());
  const slot nothing = co_await p.sem.try_acquire_for(4s);
  BOOST_TEST(!nothing);

  slot got;
  std::optional<error_code> waited;
  p.sem.acquire([&](error_code ec, slot its) {
    waited = ec;
    got = std::move(its);
  });
  co_await until("it waits", [&] { return p.sem.statistics().place == 1u; });
  own.freeze();
  const auto [failed, still_none] = co_await p.sem.try_acquire_for(2s, as_result);
  BOOST_TEST((failed == condition::unavailable), failed.message());
  const acquire_options over{.deadline = std::chrono::steady_clock::now() - 1s};
  const auto [past, unsent] = co_await p.sem.acquire(over, as_result);
  BOOST_TEST(past == error::would_be_late, past.message());
  own.thaw();
  own.wait_until_ready();
  co_await held.release();
  co_await until("the one that waits has the slot", [&] { return waited.has_value(); });
  BOOST_TEST(!*waited);
}

BOOST_AUTO_TEST_SUITE_END()

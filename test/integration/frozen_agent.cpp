// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A case that other clients get wrong: the holders use a frozen client agent, and the waiters use the server. The
// server grants when the holders' sessions expire. The holders must notice by themselves, because nobody can tell them.

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <iostream>
#include <thread>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

/// Asks all handles in a tight loop, on its own thread, who holds. The slots must not be moved during that time.
class believers {
public:
  believers() : looks_([this](const std::stop_token& stop) { look(stop); }) {}

  void watch(const slot& s) { slots_[count_.fetch_add(1)].store(&s); }
  void stop() {
    looks_.request_stop();
    looks_.join();
  }

  int most() const { return most_; }
  long looks() const { return times_; }

private:
  void look(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      int now = 0;
      for (const auto& each : slots_) {
        const slot* s = each.load();
        now += s && s->held();
      }
      if (now > most_) most_ = now;
      ++times_;
      // 2 cores, and the agents need one: often enough to see any overlap of more than a fraction of a millisecond.
      if (times_ % 64 == 0) std::this_thread::sleep_for(50us);
    }
  }

  std::array<std::atomic<const slot*>, 4> slots_{};
  std::atomic<std::size_t> count_{0};
  std::atomic<int> most_{0};
  std::atomic<long> times_{0};
  std::jthread looks_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(frozen_agent)

ASYNC_TEST_CASE(waiters_are_granted_only_after_the_holders_have_given_up_believing, 60s) {
  const auto ttl = scaled(1500ms);
  agent server;
  agent client(agent_options{.server = false, .join = &server});
  const std::string prefix = unique_prefix("frozen");
  semaphore_options behind_client = calm(prefix, 2);
  behind_client.session_ttl = ttl;
  behind_client.tuning.outage_grace = 1h;  // they ride out what they may, up to the lease: the hardest case
  semaphore_options behind_server = calm(prefix, 2);
  behind_server.session_ttl = ttl;
  participant holder_1(ex, client, behind_client);
  participant holder_2(ex, client, behind_client);
  participant waiter_1(ex, server, behind_server);
  participant waiter_2(ex, server, behind_server);

  slot first = co_await holder_1.sem.acquire();
  slot second = co_await holder_2.sem.acquire();
  slot third, fourth;
  believers all;
  companions waiting(ex);
  auto take = [&](participant& who, slot& into) -> asio::awaitable<void> {
    into = co_await who.sem.acquire();
    all.watch(into);
  };
  waiting.start(take(waiter_1, third));
  waiting.start(take(waiter_2, fourth));
  co_await until("both wait", [&] { return contenders(server, prefix).size() == 4; });
  all.watch(first);
  all.watch(second);
  pending<loss_reason> first_lost(ex, first.wait_lost());
  pending<loss_reason> second_lost(ex, second.wait_lost());
  co_await pause(ttl);  // renewals keep them meanwhile
  BOOST_TEST(first.held());
  BOOST_TEST(second.held());
  BOOST_TEST(!third.valid());
  BOOST_TEST(!fourth.valid());

  client.freeze();
  const auto frozen = clock::now();
  // Consul ends a session after twice its TTL; then the grant, and what a busy machine needs.
  const bool granted = co_await happens_within(2 * 1500ms + 2s, [&] { return waiting.running() == 0; });
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - frozen);
  BOOST_REQUIRE_MESSAGE(granted, "the waiters were not granted within twice the TTL and a margin");
  co_await waiting.join();
  BOOST_TEST(third.held());
  BOOST_TEST(fourth.held());
  BOOST_TEST(!first.held());
  BOOST_TEST(!second.held());
  co_await until("the holders were told", [&] { return first_lost.ready() && second_lost.ready(); });
  BOOST_TEST((first_lost.value() == loss_reason::lease_expired));
  BOOST_TEST((second_lost.value() == loss_reason::lease_expired));
  co_await pause(ttl);

  // The requests that the agent had held back arrive late, and revive nothing.
  client.thaw();
  client.wait_until_ready();
  co_await pause(ttl);
  BOOST_TEST(!first.held());
  BOOST_TEST(!second.held());
  BOOST_TEST(third.held());
  BOOST_TEST(fourth.held());
  all.stop();
  BOOST_TEST(all.most() == 2);
  BOOST_TEST(all.looks() > 1000);
  std::cout << "frozen agent: TTL " << ttl.count() << " ms; the waiters were granted " << took.count()
            << " ms after the freeze; at most " << all.most() << " of 4 believed to hold a limit of 2, in "
            << all.looks() << " looks\n";
}

BOOST_AUTO_TEST_SUITE_END()

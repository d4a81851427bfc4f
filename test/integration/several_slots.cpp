// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Processes that hold several slots each. The number of slots must not increase what a handoff sends: each process is
// told of its own slots and of the record, but not of all entries.

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

/// This many processes, each with this many coroutines that take turns on half as many slots.
asio::awaitable<double> bytes_per_handoff(asio::any_io_executor ex, int processes, int coroutines) {
  const std::string prefix = unique_prefix("several");
  const auto limit = static_cast<std::uint32_t>(processes * coroutines / 2);
  std::vector<std::unique_ptr<participant>> all;
  for (int i = 0; i != processes; ++i)
    all.push_back(std::make_unique<participant>(ex, shared_agent(), calm(prefix, limit)));
  std::uint64_t turns = 0, bytes = 0;
  const std::uint64_t warm_up = 4 * limit, last = 20 * limit;
  const auto received = [&] {
    std::uint64_t sum = 0;
    for (const auto& each : all) sum += each->client.statistics().bytes_received;
    return sum;
  };
  companions working(ex);
  const auto take_turns = [&](participant& me) -> asio::awaitable<void> {
    while (turns < last) {
      slot held = co_await me.sem.acquire();
      co_await pause(20ms);  // longer than the pool waits before it watches
      co_await held.release();
      if (++turns == warm_up) bytes = received();
    }
  };
  for (const auto& each : all)
    for (int i = 0; i != coroutines; ++i) working.start(take_turns(*each));
  co_await working.join();
  const double result = static_cast<double>(received() - bytes) / static_cast<double>(turns - warm_up);
  for (const auto& each : all) co_await each->sem.close(as_result);
  co_return result;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(several_slots)

ASYNC_TEST_CASE(a_handoff_sends_no_more_to_those_who_hold_several, 120s) {
  const double one = co_await bytes_per_handoff(ex, 20, 1);
  const double five = co_await bytes_per_handoff(ex, 20, 5);
  BOOST_TEST_MESSAGE("bytes per handoff: " << one << " with one slot each, " << five << " with five");
  std::cout << "bytes per handoff: " << one << " with one contender in each of 20 processes, " << five
            << " with five\n";
  // The record names five times as many.
  BOOST_TEST(five < 6 * one);
}

BOOST_AUTO_TEST_SUITE_END()

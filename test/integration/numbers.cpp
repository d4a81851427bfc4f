// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Numbered slots on a real agent.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

semaphore_options numbered(std::string prefix, std::uint32_t limit) {
  semaphore_options o = calm(std::move(prefix), limit);
  o.numbered = true;
  o.tuning.lock_delay = 0s;
  return o;
}

using numbers = std::vector<std::uint32_t>;

std::set<std::uint32_t> all_of(const slot& a, const slot& b) {
  std::set<std::uint32_t> all;
  for (const slot* each : {&a, &b})
    for (const std::uint32_t number : each->numbers()) BOOST_TEST(all.insert(number).second);
  return all;
}

asio::awaitable<std::string> owner_of(participant& asked, std::string prefix, std::uint32_t number) {
  const auto seen = co_await asked.client.get(prefix + "/.slot/" + std::to_string(number));
  co_return seen.value ? seen.value->session : "nobody ever";
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(numbers)

ASYNC_TEST_CASE(each_slot_has_its_own_number, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("numbers");
  participant one(ex, a, numbered(prefix, 3)), two(ex, a, numbered(prefix, 3));
  slot first = co_await one.sem.acquire();
  slot pair = co_await two.sem.acquire(2);
  BOOST_TEST(first.numbers().size() == 1u);
  BOOST_TEST(pair.numbers().size() == 2u);
  BOOST_TEST((all_of(first, pair) == std::set<std::uint32_t>{0, 1, 2}));
  const std::uint32_t free = first.numbers().front();
  pending<slot> waiting(ex, two.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 4; });
  co_await first.release();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST((waiting.value().numbers() == test::numbers{free}));
  const std::string owner = co_await owner_of(one, prefix, free);
  const std::vector<std::string> now = contenders(a, prefix);
  BOOST_TEST(std::count(now.begin(), now.end(), owner) == 1);
  const slot empty;
  BOOST_TEST(empty.numbers().empty());
  let_go(first, pair, waiting.take());
  co_await one.sem.close();
  co_await two.sem.close();
  for (std::uint32_t i = 0; i != 3; ++i) {
    const std::string nobody = co_await owner_of(one, prefix, i);
    BOOST_TEST(nobody == "");
  }
}

/// One holder at a time has a number, after handoffs in a process and between two processes.
ASYNC_TEST_CASE(nobody_meets_another_at_a_number, 60s) {
  constexpr int turns = 40;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-turns");
  std::vector<std::unique_ptr<participant>> us;
  std::map<std::uint32_t, crowd> at;
  int done = 0;
  auto take_turns = [&](participant& me, std::uint32_t slots) -> asio::awaitable<void> {
    for (int i = 0; i != turns; ++i) {
      slot held = co_await me.sem.acquire(slots);
      const test::numbers mine = held.numbers();
      BOOST_TEST(mine.size() == slots);
      for (const std::uint32_t each : mine) at[each].enter();
      co_await pause(1ms);
      BOOST_TEST(held.held());
      for (const std::uint32_t each : mine) at[each].leave();
      ++done;
      co_await held.release();
    }
  };
  companions running(ex);
  for (int i = 0; i != 4; ++i) {
    us.push_back(std::make_unique<participant>(ex, a, numbered(prefix, 3)));
    running.start(take_turns(*us.back(), 1));
    running.start(take_turns(*us.back(), 1 + static_cast<std::uint32_t>(i) % 2));
  }
  co_await running.join();
  BOOST_TEST(done == 8 * turns);
  BOOST_TEST(at.size() == 3u);
  for (const auto& [number, inside] : at) {
    BOOST_TEST(number < 3u);
    BOOST_TEST(inside.most() == 1);
  }
  for (const auto& each : us) co_await each->sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

ASYNC_TEST_CASE(who_wants_no_number_takes_part, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-mixed");
  participant plain(ex, a, calm(prefix, 2)), one(ex, a, numbered(prefix, 2)), two(ex, a, numbered(prefix, 2));
  slot without = co_await plain.sem.acquire();
  slot with = co_await one.sem.acquire();
  BOOST_TEST(without.numbers().empty());
  BOOST_TEST(with.numbers().size() == 1u);
  slot none = co_await two.sem.try_acquire();
  BOOST_TEST(!none.valid());
  pending<slot> waiting(ex, two.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 3; });
  co_await without.release();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST((all_of(with, waiting.value()) == std::set<std::uint32_t>{0, 1}));
}

/// Consul keeps the number of a dead process from everybody.
ASYNC_TEST_CASE(the_lock_delay_of_a_number_is_honoured, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-delay");
  semaphore_options options = numbered(prefix, 1);
  options.tuning.lock_delay = 2s;
  participant holder(ex, a, options), other(ex, a, numbered(prefix, 1));
  slot held = co_await holder.sem.acquire();
  pending<slot> waiting(ex, other.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 2; });
  const std::vector<std::string> before = contenders(a, prefix);
  const std::string& dead = before.at(0);
  co_await holder.client.destroy_session(dead);
  const auto begun = std::chrono::steady_clock::now();
  co_await until("it is granted", [&] { return holders(a, prefix) == std::vector<std::string>{before.at(1)}; });
  slot none = co_await other.sem.try_acquire();  // somebody waits
  BOOST_TEST(!none.valid());
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST((waiting.value().numbers() == test::numbers{0}));
  BOOST_TEST((std::chrono::steady_clock::now() - begun >= 1900ms));
  let_go(held, waiting.take());
  co_await holder.sem.close();
  co_await other.sem.close();
}

ASYNC_TEST_CASE(a_holder_whose_number_was_taken_away_has_lost, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-taken");
  participant holder(ex, a, numbered(prefix, 1));
  slot held = co_await holder.sem.acquire();
  co_await holder.client.remove(prefix + "/.slot/0");
  const loss_reason reason = co_await held.wait_lost();
  BOOST_TEST((reason == loss_reason::removed));
  let_go(held);
  slot again = co_await holder.sem.acquire();
  BOOST_TEST((again.numbers() == test::numbers{0}));
}

ASYNC_TEST_CASE(numbers_stay_below_the_limit_as_it_changes, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-resize");
  semaphore_options options = numbered(prefix, 3);
  options.use_recorded_limit = true;
  participant us(ex, a, options);
  slot all = co_await us.sem.acquire(3);
  semaphore_administration admin(us.client, {.prefix = prefix});
  co_await admin.resize(1);
  co_await until("it hears of that", [&] { return us.sem.limit() == 1; });
  pending<slot> waiting(ex, us.sem.acquire());
  co_await all.release();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST((waiting.value().numbers() == test::numbers{0}));
  co_await admin.resize(2);
  slot second = co_await us.sem.acquire();
  BOOST_TEST((second.numbers() == test::numbers{1}));
}

ASYNC_TEST_CASE(an_operator_sees_and_removes_them, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("number-seen");
  participant us(ex, a, numbered(prefix, 2));
  slot held = co_await us.sem.acquire();
  semaphore_administration admin(us.client, {.prefix = prefix});
  const semaphore_status status = co_await admin.inspect();
  BOOST_REQUIRE(status.holders.size() == 1u);
  BOOST_TEST((status.holders.front().number == held.numbers().front()));
  let_go(held);
  co_await us.sem.close();
  co_await admin.destroy();
  BOOST_TEST(listing(a, prefix) == "");
}

BOOST_AUTO_TEST_SUITE_END()

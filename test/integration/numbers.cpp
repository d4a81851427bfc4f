// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Numbered slots on a real agent.

#include <algorithm>
#include <boost/test/unit_test.hpp>
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

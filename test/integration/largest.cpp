// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The largest number of slots that a semaphore may have, or a seventh of that in a build with a sanitizer. No request
// may exceed what Consul takes, and no step may take time with the square of the holders.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

constexpr std::uint32_t at_once = 60;
static_assert(protocol::limit_max % at_once == 0);

semaphore_options as_large_as_can_be(std::string prefix, std::uint32_t limit) {
  semaphore_options options = calm(std::move(prefix), limit);
  // 4,200 sessions are renewed while this runs. On a busy machine that takes longer than a TTL of a minute.
  options.session_ttl = 10min;
  // On two quiet processors the test takes 20 s, and on busy ones many times as long.
  options.tuning.request_timeout = 60s;
  options.tuning.give_up_after = 180s;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(largest)

ASYNC_TEST_CASE(all_slots_are_had_asked_for_and_given_back, 280s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("largest");
  const std::uint32_t limit = is_slow_build() ? 10 * at_once : protocol::limit_max;
  participant us(ex, a, as_large_as_can_be(prefix, limit)), other(ex, a, as_large_as_can_be(prefix, limit));
  std::vector<slot> held;
  while (held.size() * at_once != limit) held.push_back(co_await us.sem.acquire(at_once));
  BOOST_TEST(holders(a, prefix).size() == limit);

  // An operator asks each holder for its slot. One by one that would take a while.
  auto marked = protocol::parse_lock_record(record(a, prefix));
  BOOST_REQUIRE(marked.has_value());
  marked->revoked = marked->holders;
  write_key(a, prefix + "/.lock", format(*marked), protocol::semaphore_flags);
  co_await until("each has heard of it", [&] {
    return std::all_of(held.begin(), held.end(), [](const slot& each) { return each.revoked(); });
  });

  pending<slot> waiting(ex, other.sem.acquire(2));
  co_await until("it waits", [&] { return contenders(a, prefix).size() == limit + 2; }, 60s);
  co_await held.back().release();
  held.pop_back();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(waiting.value().held());
  BOOST_TEST(holders(a, prefix).size() == limit - at_once + 2);
  let_go(waiting.take());
  held.clear();
  co_await other.sem.close();
  co_await us.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test

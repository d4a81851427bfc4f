// As many slots as a semaphore may have. No request may go beyond what Consul takes, and no step may take time with the
// square of the holders.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "protocol/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

constexpr std::uint32_t at_once = 60;
constexpr std::uint32_t requests = protocol::limit_max / at_once;
static_assert(requests * at_once == protocol::limit_max);

semaphore_options as_large_as_can_be(std::string prefix) {
  semaphore_options options = calm(std::move(prefix), protocol::limit_max);
  options.session_ttl = 60s;  // 4,200 sessions are renewed while this runs
  options.request_timeout = 20s;
  options.give_up_after = 60s;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(largest)

ASYNC_TEST_CASE(all_slots_are_had_asked_for_and_given_back, 120s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("largest");
  participant us(ex, a, as_large_as_can_be(prefix)), other(ex, a, as_large_as_can_be(prefix));
  std::vector<slot> held;
  while (held.size() != requests) held.push_back(co_await us.sem.acquire(at_once));
  BOOST_TEST(holders(a, prefix).size() == protocol::limit_max);

  // An operator asks each of them for its slot. One by one that would take a while.
  auto marked = protocol::parse_lock_record(record(a, prefix));
  BOOST_REQUIRE(marked.has_value());
  marked->revoked = marked->holders;
  write_key(a, prefix + "/.lock", format(*marked), protocol::semaphore_flags);
  co_await until("each has heard of it", [&] {
    return std::all_of(held.begin(), held.end(), [](const slot& each) { return each.revoked(); });
  });

  pending<slot> waiting(ex, other.sem.acquire(2));
  co_await until("it waits", [&] { return contenders(a, prefix).size() == protocol::limit_max + 2; });
  co_await held.back().release();
  held.pop_back();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(waiting.value().held());
  BOOST_TEST(holders(a, prefix).size() == protocol::limit_max - at_once + 2);
  let_go(waiting.take());
  held.clear();
  co_await other.sem.close();
  co_await us.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test

#include "runtime/setup.hpp"

#include <boost/test/unit_test.hpp>
#include <holdfast/error.hpp>

using holdfast::runtime::checked;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(runtime_options)

/// A holder whose session has ended before its time believes for TTL minus margin by its own clock, which may be slow.
BOOST_AUTO_TEST_CASE(a_lock_delay_covers_what_a_holder_with_a_slow_clock_believes) {
  BOOST_TEST((checked(holdfast::mutex_options{.key = "a", .session_node = ""}).store.lock_delay == 15s));
  BOOST_TEST((checked(holdfast::mutex_set_options{.prefix = "a", .session_node = ""}).store.lock_delay == 15s));
  BOOST_TEST(
      (checked(holdfast::mutex_options{.key = "a", .session_ttl = 66s, .session_node = ""}).store.lock_delay ==
       60s));  // Consul takes no more
  const auto checks =
      checked(holdfast::semaphore_options{.prefix = "a", .limit = 1, .session_node = "", .node_health_checks = true});
  BOOST_TEST((checks.core.lock_delay == 15s));
  BOOST_TEST((checks.store.lock_delay == 15s));
  const auto numbered =
      checked(holdfast::semaphore_options{.prefix = "a", .limit = 1, .numbered = true, .session_ttl = 30s});
  BOOST_TEST((numbered.store.lock_delay == 30s));
}

BOOST_AUTO_TEST_SUITE_END()

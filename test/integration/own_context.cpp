// A client with a context and a thread of its own keeps its leases, however long the application's threads are busy.

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <thread>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/print.hpp"

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(own_context)

ASYNC_TEST_CASE(a_blocked_application_loses_no_lease_when_the_client_has_its_own_thread, 30s) {
  const auto ttl = scaled(600ms);
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("own");
  asio::thread_pool own(1);
  participant safe(own.get_executor(), a, hasty(prefix, 2, 600ms));
  participant brave(ex, a, hasty(prefix, 2, 600ms));
  slot kept = co_await safe.sem.acquire();
  slot gone = co_await brave.sem.acquire();

  std::this_thread::sleep_for(3 * ttl);  // the subject of the test: the application is busy
  BOOST_TEST(kept.held());
  BOOST_TEST((kept.state() == slot_state::held));
  BOOST_TEST(!gone.held());  // so the time was long enough to lose one
  BOOST_TEST(holders(a, prefix).size() >= 1u);

  co_await kept.release();
  co_await safe.sem.close();
  own.join();
}

ASYNC_TEST_CASE(handlers_run_on_their_own_executor, 30s) {
  asio::thread_pool own(1);
  participant p(own.get_executor(), shared_agent(), calm(unique_prefix("executors"), 1));
  const std::thread::id here = std::this_thread::get_id();
  slot held = co_await p.sem.acquire();
  BOOST_TEST((std::this_thread::get_id() == here));
  co_await held.release();
  BOOST_TEST((std::this_thread::get_id() == here));
  auto [ec, reason] = co_await held.wait_lost(as_result);
  BOOST_TEST(ec == error::not_held);
  BOOST_TEST((std::this_thread::get_id() == here));
  co_await p.sem.close();
  BOOST_TEST((std::this_thread::get_id() == here));
  own.join();
}

BOOST_AUTO_TEST_SUITE_END()

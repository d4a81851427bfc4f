// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A client with a context and a thread of its own keeps its leases, however long the application's threads are busy.

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <thread>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

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

/// A closed client does not wait for anything that it cannot do any more.
ASYNC_TEST_CASE(a_client_that_is_closed_first_takes_its_semaphores_along, 30s) {
  agent& a = shared_agent();
  asio::io_context io;
  participant p(io.get_executor(), a, calm(unique_prefix("closed-first"), 1));
  set_user us(io.get_executor(), a, calm_set(unique_prefix("closed-first-set")));
  std::vector<error_code> ends;
  loss_reason why = loss_reason::none, set_why = loss_reason::none;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        slot held = co_await p.sem.acquire();
        slot locked = co_await us.set.try_lock("a");
        const auto note = [&](error_code ec, auto&&...) { ends.push_back(ec); };
        p.sem.acquire(note);
        held.wait_lost([&](error_code, loss_reason reason) { why = reason; });
        locked.wait_lost([&](error_code, loss_reason reason) { set_why = reason; });
        p.client.close();
        us.client.close();
        p.sem.close(note);
        us.set.close(note);
      },
      [](std::exception_ptr failure) { BOOST_TEST(!failure); });
  io.run_for(20s);  // well before the sessions expire
  BOOST_TEST(io.stopped());
  BOOST_TEST((why == loss_reason::closed));
  BOOST_TEST((set_why == loss_reason::closed));
  BOOST_TEST(ends.size() == 3u);
  co_return;
}

ASYNC_TEST_CASE(a_handlers_context_keeps_running_until_it_is_called_and_no_longer, 30s) {
  participant p(ex, shared_agent(), calm(unique_prefix("handlers"), 1));
  slot held = co_await p.sem.acquire();
  asio::io_context other;
  std::atomic<int> called = 0, called_elsewhere = 0;
  slot got;
  const auto there = [&](auto handler) {
    return asio::bind_executor(other.get_executor(), [&, handler](auto... results) mutable {
      called_elsewhere += !other.get_executor().running_in_this_thread();
      handler(std::move(results)...);
      ++called;
    });
  };
  // Ends when the context has nothing to wait for any more.
  const auto run_until = [&](int calls) -> asio::awaitable<void> {
    other.restart();
    std::thread runs([&] { other.run(); });
    co_await until("the handler was called", [&] { return called == calls; });
    runs.join();
  };

  p.sem.acquire([](error_code, slot) {});
  asio::cancellation_signal cancel;
  p.sem.acquire(asio::bind_cancellation_slot(cancel.slot(), there([](error_code ec, slot) {
                                               if (ec != asio::error::operation_aborted)
                                                 throw boost::system::system_error(ec);
                                             })));
  cancel.emit(asio::cancellation_type::all);
  co_await run_until(1);  // though others wait on

  p.sem.acquire(there([&](error_code, slot s) { got = std::move(s); }));
  co_await held.release();
  co_await run_until(2);
  BOOST_TEST(got.held());
  got.release(there([](error_code ec) {
    if (ec) throw boost::system::system_error(ec);
  }));
  co_await run_until(3);
  BOOST_TEST(called_elsewhere == 0);
  co_await p.sem.close();
}

BOOST_AUTO_TEST_SUITE_END()

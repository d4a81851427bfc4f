// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client has a context and threads of its own: orders, wishes and cancellations cross from thread to thread.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

/// An execution context with two threads.
class busy_context {
public:
  busy_context() : work_(asio::make_work_guard(io_)) {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { io_.run(); });
  }
  ~busy_context() {
    work_.reset();
    io_.stop();
    for (std::thread& each : threads_) each.join();
  }
  asio::any_io_executor executor() { return io_.get_executor(); }

private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

administration_options of(const std::string& prefix) {
  administration_options options;
  options.prefix = prefix;
  return options;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(administration)

ASYNC_TEST_CASE(orders_and_wishes_come_back_to_the_thread_that_waits, 60s) {
  const std::thread::id here = std::this_thread::get_id();
  const std::string prefix = unique_prefix("threads-orders");
  busy_context clients;
  participant p(clients.executor(), shared_agent(), calm(prefix, 1));
  semaphore_administration admin(p.client, of(prefix));
  for (int i = 0; i < 40; ++i) {
    slot held = co_await p.sem.acquire();
    BOOST_TEST((std::this_thread::get_id() == here));
    const semaphore_status now = co_await admin.inspect();
    BOOST_TEST((std::this_thread::get_id() == here));
    std::vector<std::jthread> askers;  // anybody may look at it
    for (int asker = 0; asker < 2; ++asker)
      askers.emplace_back([&held](std::stop_token stop) {
        while (!stop.stop_requested() && !held.revoked()) std::this_thread::yield();
      });
    co_await admin.revoke(now.holders.at(0).session);
    co_await held.wait_revoked();
    BOOST_TEST((std::this_thread::get_id() == here));
    askers.clear();
    co_await held.release();
  }
}

ASYNC_TEST_CASE(orders_and_waits_are_cancelled_from_another_thread_than_theirs, 60s) {
  const std::thread::id here = std::this_thread::get_id();
  const std::string prefix = unique_prefix("threads-cancel");
  busy_context clients;
  participant p(clients.executor(), shared_agent(), calm(prefix, 1));
  semaphore_administration admin(p.client, of(prefix));
  slot held = co_await p.sem.acquire();
  int done = 0, aborted = 0;
  constexpr int rounds = 60;
  for (int i = 0; i < rounds; ++i) {
    asio::cancellation_signal drain, wish, read;
    const auto end = [&](error_code ec) {
      BOOST_TEST((std::this_thread::get_id() == here));
      aborted += ec == asio::error::operation_aborted;
      ++done;
    };
    const auto look_end = [&](error_code ec, const semaphore_status&) { end(ec); };
    const int before = done;
    admin.wait_until_drained(1h, asio::bind_cancellation_slot(drain.slot(), asio::bind_executor(ex, end)));
    held.wait_revoked(asio::bind_cancellation_slot(wish.slot(), asio::bind_executor(ex, end)));
    admin.inspect(asio::bind_cancellation_slot(read.slot(), asio::bind_executor(ex, look_end)));
    co_await pause(std::chrono::microseconds(20 * i));
    for (asio::cancellation_signal* each : {&drain, &wish, &read}) each->emit(asio::cancellation_type::total);
    co_await until("all three are over", [&] { return done == before + 3; });
  }
  BOOST_TEST(aborted >= 2 * rounds);  // a request may have ended before
  BOOST_TEST(held.held());
}

BOOST_AUTO_TEST_SUITE_END()

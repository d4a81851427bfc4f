// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// One client that is used from many threads at once, for ThreadSanitizer. Only the client itself uses a strand.

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "support/agent.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul;
using holdfast::error;
using holdfast::error_code;
namespace asio = boost::asio;

namespace {

constexpr int context_threads = 2;
constexpr int user_threads = 3;
constexpr int rounds = 200;

struct tally {
  std::atomic<int> succeeded{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> closed{0};
  std::atomic<int> other{0};  // should stay 0

  void count(const error_code& ec) {
    if (!ec) {
      ++succeeded;
    } else if (ec == asio::error::operation_aborted) {
      ++cancelled;
    } else if (ec == error::closed) {
      ++closed;
    } else {
      ++other;
    }
  }
  int all() const { return succeeded + cancelled + closed + other; }
};

config settings() {
  config c;
  c.address = holdfast::test::shared_agent().address();
  return c;
}

// Runs `use(thread number)` on threads of its own while others run the context; returns when all work is done.
template <class Use>
void run_from_many_threads(asio::io_context& context, Use use) {
  auto work = asio::make_work_guard(context);
  std::vector<std::thread> threads;
  for (int i = 0; i < context_threads; ++i) threads.emplace_back([&context] { context.run(); });
  std::vector<std::thread> users;
  for (int i = 0; i < user_threads; ++i) users.emplace_back([&use, i] { use(i); });
  for (std::thread& user : users) user.join();
  work.reset();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_client)

BOOST_AUTO_TEST_CASE(requests_cancellations_and_statistics_from_everywhere) {
  asio::io_context context;
  client consul(context, settings());
  const std::string prefix = holdfast::test::unique_prefix("threads");
  tally results;
  run_from_many_threads(context, [&](int user) {
    // A signal belongs to its user. It is emitted on the thread that owns it, while the client completes on others.
    std::list<asio::cancellation_signal> signals;
    for (int i = 0; i < rounds; ++i) {
      const std::string key = prefix + std::to_string(user) + "/" + std::to_string(i % 7);
      asio::cancellation_signal& signal = signals.emplace_back();
      consul.put(key, "v",
                 asio::bind_cancellation_slot(signal.slot(), [&](error_code ec, bool) { results.count(ec); }));
      consul.get(key, [&](error_code ec, const auto&) { results.count(ec); });
      if (i % 3 == 0) signal.emit(asio::cancellation_type::total);
      if (consul.statistics().connections_open > 5) ++results.other;
    }
    // The slots must outlive their operations, and those of all threads count. So this waits for all.
    while (results.all() < 2 * rounds * user_threads) std::this_thread::sleep_for(1ms);
  });
  BOOST_TEST(results.all() == 2 * rounds * user_threads);
  BOOST_TEST(results.other == 0);
  BOOST_TEST(results.succeeded > 0, "the race was run");
  BOOST_TEST(results.cancelled > 0, "the race was run");
}

BOOST_AUTO_TEST_CASE(handles_go_and_clients_close_while_requests_run) {
  tally results;
  asio::io_context context;
  run_from_many_threads(context, [&](int) {
    for (int i = 0; i < rounds / 10; ++i) {
      client consul(context, settings());
      for (int n = 0; n < 8; ++n) consul.get("k", [&](error_code ec, const auto&) { results.count(ec); });
      if (i % 2 == 0) consul.close();
    }
  });
  BOOST_TEST(results.all() == rounds / 10 * 8 * user_threads);
  BOOST_TEST(results.other == 0);
  BOOST_TEST(results.succeeded > 0, "the race was run");
  BOOST_TEST(results.closed > 0, "the race was run");
}

BOOST_AUTO_TEST_SUITE_END()

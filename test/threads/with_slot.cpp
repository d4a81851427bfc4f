// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client has a context and a thread of its own, as the documentation advises for busy programs. A loss comes from
// there while the body runs here.

#include <atomic>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

/// An execution context with a thread.
class other_thread {
public:
  other_thread() : work_(asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  ~other_thread() {
    work_.reset();
    io_.stop();
    thread_.join();
  }
  asio::any_io_executor executor() { return io_.get_executor(); }

private:
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

/// Completes when it is cancelled; notes on which thread it was told so.
template <class Token>
auto until_cancelled(std::vector<std::thread::id>& told_on, Token&& token) {
  const auto initiation = [&told_on](auto handler) {
    const asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler);
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    asio::cancellation_slot(slot).assign([&told_on, shared](asio::cancellation_type) {
      told_on.push_back(std::this_thread::get_id());
      const auto ex = asio::get_associated_executor(*shared);
      asio::post(ex, std::move(*shared));
    });
  };
  return asio::async_initiate<Token, void()>(initiation, token);
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(with_slot)

ASYNC_TEST_CASE(a_loss_cancels_the_body_on_the_bodys_own_thread, 60s) {
  constexpr int rounds = 30;
  agent& a = shared_agent();
  const std::thread::id here = std::this_thread::get_id();
  std::vector<std::thread::id> cancelled_on;
  int lost = 0;
  other_thread clients;
  for (int i = 0; i < rounds; ++i) {
    const std::string prefix = unique_prefix("with-slot-thread");
    participant p(clients.executor(), a, calm(prefix, 1));
    auto body = [&](slot& held) -> asio::awaitable<void> {
      a.put("/v1/session/destroy/" + sessions(a, prefix).at(0));
      // Sets a cancellation handler and takes it away, again and again: never while another thread calls it.
      for (int turn = 0; turn < 20 * (i % 5) && held.held(); ++turn) co_await pause(1us);
      co_await until_cancelled(cancelled_on, asio::use_awaitable);
    };
    try {
      co_await holdfast::with_slot(p.sem, body);
    } catch (const system_error& e) {
      if (e.code() == error::slot_lost) ++lost;
    }
  }
  BOOST_TEST(lost == rounds);
  BOOST_TEST(!cancelled_on.empty());
  for (const std::thread::id each : cancelled_on) BOOST_TEST((each == here));
}

/// The body runs on a strand, whatever the executor: here, of four threads.
ASYNC_TEST_CASE(losses_and_cancellations_meet_bodies_on_a_context_of_several_threads, 60s) {
  constexpr int rounds = 60;
  agent& a = shared_agent();
  asio::thread_pool workers(4);
  std::atomic<int> lost = 0, cancelled = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string prefix = unique_prefix("with-slot-threads");
    participant p(workers.get_executor(), a, calm(prefix, 1));
    const bool is_lost = i % 2 == 0;
    std::atomic<bool> inside = false;
    auto body = [&](slot& held) -> asio::awaitable<void> {
      inside = true;
      if (is_lost) a.put("/v1/session/destroy/" + sessions(a, prefix).at(0));
      // Sets a cancellation handler and takes it away, again and again.
      for (int turn = 0; turn < 10 * (i % 7) && held.held(); ++turn) co_await pause(1us);
      co_await pause(1h);
    };
    auto critical = [&]() -> asio::awaitable<void> { co_await holdfast::with_slot(p.sem, body); };
    asio::cancellation_signal stop;
    const auto ended = std::make_shared<std::promise<error_code>>();
    const asio::strand<asio::thread_pool::executor_type> home(workers.get_executor());
    asio::co_spawn(home, critical(), asio::bind_cancellation_slot(stop.slot(), [ended](std::exception_ptr failure) {
                     error_code ec;
                     try {
                       if (failure) std::rethrow_exception(failure);
                     } catch (const system_error& e) {
                       ec = e.code();
                     }
                     ended->set_value(ec);
                   }));
    if (!is_lost) {
      co_await until("the body runs", [&] { return inside.load(); });
      asio::post(home, [&stop] { stop.emit(asio::cancellation_type::terminal); });
    }
    const error_code ec = ended->get_future().get();
    lost += ec == error::slot_lost;
    cancelled += ec == asio::error::operation_aborted;
  }
  workers.join();
  BOOST_TEST(lost == rounds / 2);
  BOOST_TEST(cancelled == rounds / 2);
}

BOOST_AUTO_TEST_SUITE_END()

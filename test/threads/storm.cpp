// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Everything at once, from four threads: acquires are cancelled at any moment, waits are short, slots are dropped on
// any thread, and semaphores are destroyed while in use. No more than the limit hold, everything ends, and nothing is
// left.

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <random>
#include <stop_token>
#include <thread>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr int limit = 3;
constexpr int threads = 4;

/// Counts what happened. A test of races in which nothing races would prove nothing.
struct score {
  explicit score(asio::any_io_executor ex) : anywhere(std::move(ex)) {}

  const asio::any_io_executor anywhere;  ///< of the context, no strand
  std::atomic<int> inside{0}, most_inside{0};
  std::atomic<int> granted{0}, aborted{0}, granted_though_cancelled{0}, timed_out{0}, denied{0}, closed{0};
  std::atomic<int> dropped_elsewhere{0}, handles_dropped_in_use{0}, stop_callbacks{0}, unexpected{0};
  std::atomic<int> running{0};

  void enter(int slots) {
    const int now = inside.fetch_add(slots) + slots;
    int most = most_inside.load();
    while (now > most && !most_inside.compare_exchange_weak(most, now)) continue;
  }
  void leave(int slots) { inside.fetch_sub(slots); }
};

/// Holds the slots for a while and releases them in one of the possible ways.
asio::awaitable<void> use(slot held, score& s, unsigned choice) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  const int slots = static_cast<int>(held.count());
  ++s.granted;
  s.enter(slots);
  std::stop_callback on_stop(held.stop_token(), [&s] { ++s.stop_callbacks; });
  if (choice % 2 == 0) co_await pause(std::chrono::microseconds(choice % 700));
  if (choice % 3 == 0) co_await asio::post(ex, asio::use_awaitable);
  s.leave(slots);
  switch (choice % 4) {
    case 0:
    case 1: {
      auto [ec] = co_await held.release(as_result);
      if (ec) ++s.unexpected;
      break;
    }
    case 2:
      break;  // dropped here
    case 3:   // dropped on whatever thread comes
      ++s.dropped_elsewhere;
      asio::post(s.anywhere, [moved = std::move(held)] {});
      break;
  }
}

/// One acquire that is cancelled after a while, on the strand of the coroutine, as the rules for signals want it.
struct cancelled_acquire {
  explicit cancelled_acquire(const asio::any_io_executor& ex) : ended(ex, clock::time_point::max()) {}
  asio::cancellation_signal signal;
  asio::steady_timer ended;
  bool done = false;
  error_code ec;
  slot got;
};

asio::awaitable<void> cancel_in_between(holdfast::semaphore& sem, score& s, unsigned choice) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  auto one = std::make_shared<cancelled_acquire>(ex);
  auto handler = [one](error_code ec, slot got) {
    one->ec = ec;
    one->got = std::move(got);
    one->done = true;
    one->ended.cancel();
  };
  sem.acquire(1 + choice % 2,
              asio::bind_cancellation_slot(one->signal.slot(), asio::bind_executor(ex, std::move(handler))));
  if (choice % 5 != 0) co_await pause(std::chrono::microseconds(choice % 60'000));
  const bool was_done = one->done;
  one->signal.emit(asio::cancellation_type::terminal);
  while (!one->done) co_await one->ended.async_wait(as_result);
  if (one->ec == asio::error::operation_aborted) {
    ++s.aborted;
  } else if (one->ec == error::closed) {
    ++s.closed;
  } else if (one->ec) {
    ++s.unexpected;
  } else {
    if (!was_done) ++s.granted_though_cancelled;
    co_await use(std::move(one->got), s, choice / 7);
  }
}

/// The closest race: the slot is handed to the waiter, and the waiter is cancelled directly before or after that. The
/// first of the two counts.
asio::awaitable<void> race_the_handover(holdfast::semaphore& sem, score& s, int rounds) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  for (int i = 0; i < rounds; ++i) {
    slot held = co_await sem.acquire();
    auto one = std::make_shared<cancelled_acquire>(ex);
    auto handler = [one](error_code ec, slot got) {
      one->ec = ec;
      one->got = std::move(got);
      one->done = true;
      one->ended.cancel();
    };
    sem.acquire(asio::bind_cancellation_slot(one->signal.slot(), asio::bind_executor(ex, std::move(handler))));
    while (sem.statistics().waiting == 0) co_await pause(100us);
    const bool cancel_first = i % 2 == 0;
    if (cancel_first) one->signal.emit(asio::cancellation_type::terminal);
    held = slot();
    if (!cancel_first) one->signal.emit(asio::cancellation_type::terminal);
    while (!one->done) co_await one->ended.async_wait(as_result);
    const error_code expected = cancel_first ? error_code(asio::error::operation_aborted) : error_code();
    if (one->ec != expected || one->got.held() == cancel_first) ++s.unexpected;
    ++(cancel_first ? s.aborted : s.granted_though_cancelled);
  }
}

asio::awaitable<void> storm_rounds(holdfast::semaphore& sem, score& s, unsigned seed, int rounds) {
  std::minstd_rand random(seed);
  for (int i = 0; i < rounds; ++i) {
    const unsigned choice = static_cast<unsigned>(random());
    switch (random() % 5) {
      case 0:
      case 1:
        co_await cancel_in_between(sem, s, choice);
        break;
      case 4: {
        auto [ec, got] = co_await sem.acquire(as_result);
        if (ec) ++s.unexpected;
        co_await use(std::move(got), s, choice);
        break;
      }
      case 2: {
        const std::chrono::microseconds time(choice % 60'000);
        auto [ec, got] = co_await sem.try_acquire_for(time, as_result);
        // With so little time, Consul may not have answered yet.
        if (ec && ec != error::timed_out) {
          ++s.unexpected;
        } else if (!got.valid()) {
          ++s.timed_out;
        } else {
          co_await use(std::move(got), s, choice);
        }
        break;
      }
      case 3: {
        auto [ec, got] = co_await sem.try_acquire(as_result);
        if (ec) {
          ++s.unexpected;
        } else if (!got.valid()) {
          ++s.denied;
        } else {
          co_await use(std::move(got), s, choice);
        }
        break;
      }
    }
  }
}

/// Semaphores that come and go: the handle is destroyed while others wait on it and hold its slots.
asio::awaitable<void> short_lived(consul::client client, std::string prefix, score& s, unsigned seed, int rounds) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  std::minstd_rand random(seed);
  for (int i = 0; i < rounds; ++i) {
    auto sem = std::make_unique<holdfast::semaphore>(client, calm(prefix, limit));
    for (int waiter = 0; waiter < 4; ++waiter) {
      auto handler = [ex, &s, choice = static_cast<unsigned>(random())](error_code ec, slot got) {
        if (ec == error::closed) {
          ++s.closed;
        } else if (ec) {
          ++s.unexpected;
        } else {
          asio::co_spawn(ex, use(std::move(got), s, choice), [&s](std::exception_ptr e) {
            if (e) ++s.unexpected;
            --s.running;
          });
          return;
        }
        --s.running;
      };
      ++s.running;
      sem->acquire(asio::bind_executor(ex, std::move(handler)));
    }
    // Half of the handles are destroyed as soon as somebody waits or holds, and the others at any moment.
    const auto in_use = [&sem] { return sem->statistics().held + sem->statistics().waiting != 0; };
    for (int looks = 0; i % 2 == 0 && looks < 1000 && !in_use(); ++looks) co_await pause(50us);
    if (i % 2 != 0) co_await pause(std::chrono::microseconds(random() % 5000));
    if (in_use()) ++s.handles_dropped_in_use;
    sem.reset();
  }
}

class pool_of_threads {
public:
  explicit pool_of_threads(asio::io_context& io) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([&io] { io.run(); });
  }
  ~pool_of_threads() {
    for (std::thread& each : threads_) each.join();
  }

private:
  std::vector<std::thread> threads_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(storm)

BOOST_AUTO_TEST_CASE(acquires_cancels_and_releases_from_four_threads) {
  constexpr int coroutines = 150, rounds = 20, passing = 10;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("storm");
  const unsigned seed = std::random_device()();
  asio::io_context io(threads);
  score s(io.get_executor());
  std::vector<std::unique_ptr<participant>> two;
  for (int i = 0; i < 2; ++i) two.push_back(std::make_unique<participant>(io.get_executor(), a, calm(prefix, limit)));

  const auto spawn = [&](asio::awaitable<void> body) {
    ++s.running;
    asio::co_spawn(asio::make_strand(io), std::move(body), [&s](std::exception_ptr e) {
      if (e) ++s.unexpected;
      --s.running;
    });
  };
  for (unsigned i = 0; i < coroutines; ++i) spawn(storm_rounds(two[i % 2]->sem, s, seed + i, rounds));
  for (unsigned i = 0; i < 2; ++i) spawn(short_lived(two[i]->client, prefix, s, seed + coroutines + i, passing));

  participant apart(io.get_executor(), a, calm(prefix + "-apart", 1));
  spawn(race_the_handover(apart.sem, s, 100));

  const auto end = clock::now() + scaled(60s);
  {
    auto work = std::make_unique<asio::executor_work_guard<asio::io_context::executor_type>>(io.get_executor());
    const pool_of_threads running(io);
    while (s.running != 0 && clock::now() < end) std::this_thread::sleep_for(5ms);
    if (s.running == 0) {  // otherwise it hangs, and that is the failure
      apart.sem = holdfast::semaphore();
      for (auto& each : two) {
        ++s.running;
        each->sem.close([&s](error_code ec) {
          if (ec) ++s.unexpected;
          --s.running;
        });
      }
      while ((s.running != 0 || !is_clean(a, prefix) || !is_clean(a, prefix + "-apart")) && clock::now() < end)
        std::this_thread::sleep_for(5ms);
    }
    work.reset();
    io.stop();
  }
  BOOST_TEST_INFO("seed " << seed);
  BOOST_TEST(s.running == 0);
  BOOST_TEST_INFO("seed " << seed);
  BOOST_TEST(is_clean(a, prefix));
  BOOST_TEST(s.most_inside <= limit);
  BOOST_TEST(s.most_inside == limit);
  BOOST_TEST(s.inside == 0);
  BOOST_TEST(s.unexpected == 0);
  BOOST_TEST(s.stop_callbacks == 0);
  // The races were run.
  BOOST_TEST(s.granted > 0);
  BOOST_TEST(s.aborted > 0);
  BOOST_TEST(s.granted_though_cancelled > 0);
  BOOST_TEST(s.timed_out > 0);
  BOOST_TEST(s.denied > 0);
  BOOST_TEST(s.closed > 0);
  BOOST_TEST(s.dropped_elsewhere > 0);
  BOOST_TEST(s.handles_dropped_in_use > 0);
  std::cout << "storm: granted " << s.granted << " (" << s.granted_though_cancelled << " though cancelled), aborted "
            << s.aborted << ", timed out " << s.timed_out << ", denied " << s.denied << ", closed " << s.closed
            << ", dropped on another thread " << s.dropped_elsewhere << ", handles dropped in use "
            << s.handles_dropped_in_use << ", at most " << s.most_inside << " held\n";
}

BOOST_AUTO_TEST_SUITE_END()

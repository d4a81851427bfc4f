// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/async.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto grace_after_cancel = 200ms;

// The result of the body's coroutine. A mutex guards `done`, because with several threads another thread waits for it.
struct outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr failure;

  void finish(std::exception_ptr e) {
    {
      const std::lock_guard lock(mutex);
      done = true;
      // The first failure counts, because later ones are mostly its consequences.
      if (!failure) failure = std::move(e);
    }
    changed.notify_all();
  }

  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }

  bool wait_until(clock::time_point end) {
    std::unique_lock lock(mutex);
    return changed.wait_until(lock, end, [this] { return done; });
  }
};

bool run_on_this_thread(asio::io_context& io, outcome& result, clock::time_point end) {
  while (!result.is_done() && !io.stopped() && io.run_one_until(end) != 0) continue;
  return result.is_done();
}

void run_on_pool_thread(asio::io_context& io, outcome& result) {
  try {
    io.run();
  } catch (...) {
    // A handler threw, not the body. The test has failed, however the body ends.
    result.finish(std::current_exception());
    io.stop();
  }
}

// Ends the threads before anything they use is destroyed.
struct thread_pool {
  asio::io_context& io;
  std::vector<std::thread> threads;

  thread_pool(asio::io_context& context, outcome& result, int count) : io(context) {
    for (int i = 0; i < count; ++i) threads.emplace_back([this, &result] { run_on_pool_thread(io, result); });
  }
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;
  ~thread_pool() {
    io.stop();
    for (auto& t : threads) t.join();
  }
};

// co_spawn leaves a handler in the signal that holds the strand. The strand must be destroyed before its context. The
// signal itself must outlive the context, because operations that the context destroys may still use the signal's slot.
struct slot_clearer {
  asio::cancellation_signal& signal;
  ~slot_clearer() { signal.slot().clear(); }
};

void fail_as_late(std::chrono::milliseconds deadline, bool ended) {
  BOOST_REQUIRE_MESSAGE(false, "not complete after " + std::to_string(deadline.count()) + " ms; " +
                                   (ended ? "cancelled cleanly" : "ignored cancellation"));
}

}  // namespace

std::chrono::milliseconds scaled(std::chrono::milliseconds deadline) {
  const char* scale = std::getenv("HOLDFAST_TEST_DEADLINE_SCALE");
  const long factor = scale ? std::strtol(scale, nullptr, 10) : 1;
  return deadline * (factor > 0 ? factor : 1);
}

bool is_slow_build() { return scaled(std::chrono::milliseconds(1)) != std::chrono::milliseconds(1); }

void run_async(const async_body& body, std::chrono::milliseconds deadline, int threads) {
  deadline = scaled(deadline);
  outcome result;
  asio::cancellation_signal cancel;
  asio::io_context io(threads);
  const slot_clearer clearer{cancel};

  const asio::any_io_executor ex =
      threads > 1 ? asio::any_io_executor(asio::make_strand(io)) : asio::any_io_executor(io.get_executor());
  const auto end = clock::now() + deadline;
  asio::co_spawn(
      ex, [&body, ex] { return body(ex); }, asio::bind_cancellation_slot(cancel.slot(), [&](std::exception_ptr e) {
        result.finish(std::move(e));
        io.stop();
      }));

  bool late = false;
  if (threads > 1) {
    const thread_pool pool(io, result, threads);
    late = !result.wait_until(end);
    if (late) {
      asio::post(ex, [&cancel] { cancel.emit(asio::cancellation_type::all); });
      result.wait_until(clock::now() + grace_after_cancel);
    }
  } else {
    late = !run_on_this_thread(io, result, end);
    if (late) {
      cancel.emit(asio::cancellation_type::all);
      io.restart();
      run_on_this_thread(io, result, clock::now() + grace_after_cancel);
    }
  }

  if (late) fail_as_late(deadline, result.is_done());
  if (result.failure) std::rethrow_exception(result.failure);
}

void run_case(const async_body& body, std::chrono::milliseconds deadline, int threads) {
  run_async(body, std::max(deadline, least_deadline_of_a_case), threads);
}

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108200
#include <boost/asio/bind_immediate_executor.hpp>
#endif
#include <chrono>
#include <deque>
#include <exception>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <iostream>
#include <string>
#include <utility>

#include "parameters.hpp"
#include "row.hpp"

namespace holdfast::bench {

/// A mutex with the interface of a semaphore.
struct one_slot {
  holdfast::mutex whole;
  template <class Token>
  auto acquire(Token&& token) {
    return whole.lock(std::forward<Token>(token));
  }
};

#if BOOST_VERSION >= 108200
/// A semaphore whose acquires complete at once if the process has a free slot.
struct immediate {
  holdfast::semaphore& whole;
  template <class Token>
  auto acquire(Token&& token) {
    return whole.acquire(asio::bind_immediate_executor(whole.get_executor(), std::forward<Token>(token)));
  }
};
#endif

/// Stands for a process of the cluster: it has connections and sessions of its own.
struct participant {
  participant(asio::io_context& io, semaphore_options options)
      : client(io, consul::config::from_environment()),
        mutex{holdfast::mutex(client, {.key = options.prefix + "/mutex"})},
        semaphore(client, std::move(options)) {}

  /// Closes the locks after the measurement. A failure is only printed: whatever is left expires with its session.
  asio::awaitable<void> close() {
    auto [failure] = co_await semaphore.close(asio::as_tuple(asio::deferred));
    if (failure) std::cerr << "bench: close: " << failure.message() << '\n';
    auto [unlocked] = co_await mutex.whole.close(asio::as_tuple(asio::deferred));
    if (unlocked) std::cerr << "bench: close: " << unlocked.message() << '\n';
    client.close();
  }

  consul::client client;
  one_slot mutex;
  holdfast::semaphore semaphore;
#if BOOST_VERSION >= 108200
  immediate at_once{semaphore};
#endif
};

/// A prefix that no other run uses, the limit of the measurement (one more if `parameters::broken`), and otherwise the
/// defaults of the library. Only the workloads cycle-idle and cycle-immediate also set `tuning.slot_idle_timeout`.
semaphore_options options_for(const parameters& p);

/// The traffic of all participants so far.
traffic used_by(const std::deque<participant>& all);

inline asio::awaitable<void> sleep_for(std::chrono::nanoseconds time) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, time);
  co_await timer.async_wait(asio::deferred);
}

inline asio::awaitable<void> sleep_until(std::chrono::steady_clock::time_point time) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, time);
  co_await timer.async_wait(asio::deferred);
}

inline void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

}  // namespace holdfast::bench

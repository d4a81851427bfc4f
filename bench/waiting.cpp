// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <cstdio>
#include <deque>

#include "measure.hpp"
#include "participant.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

using std::chrono::milliseconds;

asio::awaitable<void> wait_in_vain(semaphore& sem) {
  auto [failure, slot] = co_await sem.acquire(asio::as_tuple(asio::deferred));
}

// The handler has no state of its own, so all memory that a waiter takes is the library's.
void wait_by_callback(semaphore& sem) {
  sem.acquire([](error_code, slot) {});
}

/// Waits until each client has a session and sends nothing for half a second.
asio::awaitable<void> become_quiet(const std::deque<participant>& clients) {
  for (std::uint64_t last = 0, sessions = 0; sessions < clients.size() || last != used_by(clients).requests;) {
    last = used_by(clients).requests;
    co_await sleep_for(milliseconds(500));
    sessions = 0;
    for (const auto& each : clients) sessions += each.semaphore.statistics().sessions;
  }
}

/// Takes every slot, lets `contenders` wait, weighs them, and cancels them by closing their semaphores.
asio::awaitable<void> weigh(asio::io_context& io, const parameters& p, row& r) {
  const auto options = options_for(p);
  participant one(io, options);
  std::deque<participant> others;
  slot all = co_await one.semaphore.acquire(p.limit);

  const auto heap = heap_in_use(), memory = resident();
  if (p.workload == "waiting-client") {
    for (std::uint32_t i = 0; i < p.contenders; ++i) {
      auto& added = others.emplace_back(io, options);
      wait_by_callback(added.semaphore);
    }
    co_await become_quiet(others);
  } else {
    for (std::uint32_t i = 0; i < p.contenders; ++i) {
      if (p.workload == "waiting-coroutine")
        asio::co_spawn(io, wait_in_vain(one.semaphore), rethrow);
      else
        wait_by_callback(one.semaphore);
    }
    while (one.semaphore.statistics().waiting < p.contenders) co_await sleep_for(milliseconds(1));
  }
  r.bytes_per_waiter = static_cast<double>(heap_in_use() - heap) / p.contenders;
  r.resident_per_waiter = static_cast<double>(resident() - memory) / p.contenders;
  const auto& waits = others.empty() ? one : others.front();
  r.connections = static_cast<double>(waits.client.statistics().connections_open);
  for (auto& each : others) co_await each.close();
  all = {};  // close() would give its user five seconds
  co_await one.close();
}

}  // namespace

void waiting(const parameters& p) {
  asio::io_context io(1);
  row r;
  asio::co_spawn(io, weigh(io, p, r), rethrow);
  io.run();
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <cstdio>
#include <deque>

#include "arrivals.hpp"
#include "measure.hpp"
#include "participant.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

struct visitors {
  limit_checker limit{};
  latencies times{};
  std::uint64_t present = 0;
  std::uint64_t errors = 0;
  traffic used{};
  duration measured{};
};

asio::awaitable<void> visit(semaphore& sem, clock::time_point arrived, visitors& all) {
  ++all.present;
  auto [failure, slot] = co_await sem.acquire(asio::as_tuple(asio::deferred));
  if (failure) {
    ++all.errors;
  } else {
    all.times.add(clock::now() - arrived);
    all.limit.enter();
    co_await sleep_for(visit_time);
    all.limit.leave();
    auto [lost] = co_await slot.release(asio::as_tuple(asio::deferred));
    if (lost) ++all.errors;
  }
  --all.present;
}

asio::awaitable<void> admit(std::deque<participant>& clients, const parameters& p, visitors& all) {
  const auto executor = co_await asio::this_coro::executor;
  for (auto& each : clients) {  // arrivals later find a session
    auto warm = co_await each.semaphore.acquire();
    co_await warm.release();
  }
  const auto before = used_by(clients);
  const auto begun = clock::now();
  arrivals schedule(p.rate, begun);
  asio::steady_timer timer(executor);
  std::size_t turn = 0;
  for (auto next = schedule.next(); next < begun + p.window; next = schedule.next()) {
    timer.expires_at(next);
    co_await timer.async_wait(asio::deferred);
    asio::co_spawn(executor, visit(clients[turn++ % clients.size()].semaphore, next, all), rethrow);
  }
  const auto give_up = clock::now() + std::chrono::seconds(5);
  while (all.present > 0 && clock::now() < give_up) co_await sleep_for(std::chrono::milliseconds(1));
  all.measured = clock::now() - begun;
  all.used = used_by(clients) - before;
  all.errors += all.present;
  for (auto& each : clients) co_await each.close();
}

}  // namespace

void open_loop(const parameters& p) {
  asio::io_context io(1);
  const auto options = options_for(p);
  std::deque<participant> clients;
  for (std::uint32_t i = 0; i < p.contenders; ++i) clients.emplace_back(io, options);
  visitors all;
  asio::co_spawn(io, admit(clients, p, all), rethrow);
  io.run();

  row r;
  r.set_rates(static_cast<double>(all.times.count()), all.measured, all.used);
  r.times = &all.times;
  r.limit_held = all.limit.held(p.limit);
  r.errors = all.errors;
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench

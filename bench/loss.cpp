// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/co_spawn.hpp>
#include <cstdio>
#include <optional>
#include <stop_token>

#include "measure.hpp"
#include "participant.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

using std::chrono::milliseconds;

// How long a slot is held before its session is destroyed. By then the watch of the slot has begun.
constexpr milliseconds settled(15);

asio::awaitable<std::string> session_of_holder(consul::client& operators, const std::string& prefix) {
  const auto entries = co_await operators.list(prefix + "/");
  for (const auto& entry : entries.value)
    if (!entry.session.empty()) co_return entry.session;
  throw std::runtime_error("nobody holds a slot of " + prefix);
}

asio::awaitable<void> lose_again_and_again(participant& one, const parameters& p, latencies& times,
                                           std::uint64_t& errors) {
  consul::client operators(one.client.get_executor(), consul::config::from_environment());
  const auto end = clock::now() + p.window;
  while (clock::now() < end) {
    slot held = co_await one.semaphore.acquire();
    co_await sleep_for(settled);
    const auto session = co_await session_of_holder(operators, one.semaphore.prefix());

    std::optional<clock::time_point> noticed;
    const std::stop_callback notice(held.stop_token(), [&] { noticed = clock::now(); });
    const auto destroyed = clock::now();
    co_await operators.destroy_session(session);
    const auto give_up = clock::now() + std::chrono::seconds(5);
    while (!noticed && clock::now() < give_up) co_await sleep_for(milliseconds(1));
    if (noticed)
      times.add(*noticed - destroyed);
    else
      ++errors;
  }
  operators.close();
  co_await one.close();
}

}  // namespace

void loss(const parameters& p) {
  asio::io_context io(1);
  participant one(io, options_for(p));
  latencies times;
  row r;
  asio::co_spawn(io, lose_again_and_again(one, p, times, r.errors), rethrow);
  io.run();
  r.times = &times;
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench

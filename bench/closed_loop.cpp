// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/co_spawn.hpp>
#include <deque>

#include "arena.hpp"
#include "participant.hpp"
#include "workloads.hpp"

namespace holdfast::bench {

void closed_loop(const parameters& p) {
  const auto form = shape::of(p);
  const auto options = options_for(p);
  arena everyone(p);
  const auto here = everyone.spread();
  asio::io_context io(1);
  std::deque<participant> clients;

  std::uint32_t contender = 0;
  for (std::uint32_t client = 0; client < form.all_clients(); ++client) {
    const auto first = contender;
    contender += client < form.clients ? form.coroutines : 1;
    if (form.process_of(client) != here) continue;
    auto& added = clients.emplace_back(io, options);
    for (auto number = first; number < contender; ++number) {
      if (p.workload == "mutex") asio::co_spawn(io, contend(added.mutex, everyone, client, number), rethrow);
#if BOOST_VERSION >= 108200
      else if (p.workload == "cycle-immediate")
        asio::co_spawn(io, contend(added.at_once, everyone, client, number), rethrow);
#endif
      else
        asio::co_spawn(io, contend(added.semaphore, everyone, client, number), rethrow);
    }
  }

  const auto count = [&] { return used_by(clients); };
  const auto close = [&]() -> asio::awaitable<void> {
    for (auto& each : clients) co_await each.close();
  };
  asio::co_spawn(io, everyone.conduct(count, close), rethrow);
  io.run();
  everyone.finish();
}

}  // namespace holdfast::bench

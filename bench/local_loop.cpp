// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/semaphore.hpp>
#include <iostream>

#include "arena.hpp"
#include "participant.hpp"
#include "workloads.hpp"

namespace holdfast::bench {

void closed_loop_local(const parameters& p) {
  asio::io_context io(1);
  arena everyone(p);
  const local_store store(io);
  semaphore shared(store, options_for(p));
  for (std::uint32_t i = 0; i < p.contenders; ++i) asio::co_spawn(io, contend(shared, everyone, 0, i), rethrow);

  const auto close = [&]() -> asio::awaitable<void> {
    auto [failure] = co_await shared.close(asio::as_tuple(asio::deferred));
    if (failure) std::cerr << "bench: close: " << failure.message() << '\n';
  };
  asio::co_spawn(io, everyone.conduct([] { return traffic(); }, close), rethrow);
  io.run();
  everyone.finish();
}

}  // namespace holdfast::bench

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <cstdio>

#include "measure.hpp"
#include "process.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

asio::awaitable<void> wait_in_vain(semaphore& sem) {
  auto [failure, slot] = co_await sem.acquire(asio::as_tuple(asio::deferred));
}

/// Takes every slot, lets `contenders` wait, weighs them, and ends them by closing the semaphore.
asio::awaitable<void> weigh(process& one, const parameters& p, row& r) {
  const bool coroutines = p.workload == "waiting-coroutine";
  const auto executor = co_await asio::this_coro::executor;
  slot all = co_await one.semaphore.acquire(p.limit);

  const auto before = heap_in_use();
  for (std::uint32_t i = 0; i < p.contenders; ++i) {
    if (coroutines)
      asio::co_spawn(executor, wait_in_vain(one.semaphore), rethrow);
    else  // a handler without any state of its own: what remains is the library's
      one.semaphore.acquire([](error_code, slot) {});
  }
  while (one.semaphore.statistics().waiting < p.contenders) co_await sleep_for(std::chrono::milliseconds(1));
  r.bytes_per_waiter = static_cast<double>(heap_in_use() - before) / p.contenders;
  r.connections = static_cast<double>(one.client.statistics().connections_open);
  co_await one.close();
}

}  // namespace

void waiting(const parameters& p) {
  asio::io_context io(1);
  process one(io, options_for(p));
  row r;
  asio::co_spawn(io, weigh(one, p, r), rethrow);
  io.run();
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench

#include <boost/asio/co_spawn.hpp>
#include <deque>

#include "arena.hpp"
#include "process.hpp"
#include "workloads.hpp"

namespace holdfast::bench {

void closed_loop(const parameters& p) {
  asio::io_context io(1);
  const auto form = shape::of(p);
  const auto options = options_for(p);
  arena everyone(p);
  std::deque<process> processes;

  std::uint32_t contender = 0;
  const auto add = [&](std::uint32_t coroutines) {
    const auto index = static_cast<std::uint32_t>(processes.size());
    auto& added = processes.emplace_back(io, options);
    for (std::uint32_t i = 0; i < coroutines; ++i) {
      const auto number = contender++;
      if (p.workload == "mutex")
        asio::co_spawn(io, contend(added.mutex, everyone, index, number), rethrow);
      else
        asio::co_spawn(io, contend(added.semaphore, everyone, index, number), rethrow);
    }
  };
  for (std::uint32_t i = 0; i < form.processes; ++i) add(form.coroutines);
  if (form.rival) add(1);

  const auto count = [&] { return used_by(processes); };
  const auto close = [&]() -> asio::awaitable<void> {
    for (auto& each : processes) co_await each.close();
  };
  asio::co_spawn(io, everyone.conduct(count, close), rethrow);
  io.run();
  everyone.print();
}

}  // namespace holdfast::bench

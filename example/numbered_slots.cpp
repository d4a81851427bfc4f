// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A machine has three graphics cards, and more than three jobs need one. A semaphore limits how many jobs run. A
// numbered semaphore also assigns the cards, so that no two jobs use the same card. Each job acquires one slot or two
// slots at once, and uses the cards that the slot's numbers name.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

constexpr int cards = 3, jobs = 7;

asio::awaitable<void> work(holdfast::semaphore& sem, int job) {
  holdfast::acquire_options wish;
  wish.count = job % 3 == 0 ? 2 : 1;
  holdfast::slot slot = co_await sem.acquire(wish);

  std::ostringstream line;
  line << "job " << job << " runs on card";
  for (const std::uint32_t number : slot.numbers()) line << ' ' << number;
  std::cout << line.str() << std::endl;

  asio::steady_timer computing(co_await asio::this_coro::executor, std::chrono::milliseconds(100));
  co_await computing.async_wait(asio::use_awaitable);
  co_await slot.release();
}

asio::awaitable<void> run_jobs(holdfast::consul::client consul) {
  holdfast::semaphore_options options;
  options.prefix = "numbered_slots/cards";
  options.limit = cards;
  options.numbered = true;
  // For so long a dead job's card stays unused after its session has ended.
  options.tuning.lock_delay = std::chrono::seconds(5);
  holdfast::semaphore sem(consul, options);

  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::vector<decltype(asio::co_spawn(executor, work(sem, 1), asio::deferred))> all;
  for (int job = 1; job <= jobs; ++job) all.push_back(asio::co_spawn(executor, work(sem, job), asio::deferred));
  auto group = asio::experimental::make_parallel_group(std::move(all));
  const auto [order, failures] = co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);

  co_await sem.close();
  holdfast::semaphore_administration admin(consul, {.prefix = options.prefix});
  co_await admin.destroy();
}

constexpr std::string_view help = R"(usage: numbered_slots [options]

Seven jobs share three graphics cards: the number of a slot says which card is whose.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    example::agent(given.consul()).run(run_jobs);
    return 0;
  });
}

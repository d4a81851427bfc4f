// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Step 1 of the tutorial: three workers share two slots. doc/tutorial/first_slot.md explains the program.

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// readme worker {
asio::awaitable<void> worker(holdfast::semaphore& sem, std::string name) {
  holdfast::slot slot = co_await sem.acquire();
  std::cout << name << " works" << std::endl;
  asio::steady_timer timer(co_await asio::this_coro::executor, 100ms);
  co_await timer.async_wait(asio::use_awaitable);
  std::cout << name << " is done" << std::endl;
  co_await slot.release();
}
// } readme

// readme workers {
asio::awaitable<void> workers(holdfast::consul::client consul) {
  using namespace asio::experimental::awaitable_operators;
  holdfast::semaphore sem(consul, {.prefix = "tutorial/workers", .limit = 2});
  co_await (worker(sem, "Ada") && worker(sem, "Ben") && worker(sem, "Cleo"));
  co_await sem.close();
}
// } readme

// readme main {
int main() {
  asio::io_context io;
  holdfast::testing::server fake;  // a model of Consul, in this process
  auto config = fake.client_config();
  if (std::getenv("CONSUL_HTTP_ADDR")) config = holdfast::consul::config::from_environment();
  asio::co_spawn(io, workers(holdfast::consul::client(io, config)), [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  });
  io.run();
}
// } readme

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A semaphore on RabbitMQ: acquires a slot, works as long as it is held, and releases it. The program uses the broker
// that AMQP_URL names, or else a fake broker in this process. A real broker keeps the durable queues of the semaphore
// afterwards; their names begin with "holdfast-example".

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <holdfast/rabbitmq.hpp>
#include <holdfast/testing/broker.hpp>
#include <iostream>
#include <optional>
#include <stop_token>

namespace asio = boost::asio;
namespace rabbitmq = holdfast::rabbitmq;
using namespace std::chrono_literals;

namespace {

/// Works in steps. Ends early if the slot is lost. The slot must outlive the work.
asio::awaitable<void> work(const rabbitmq::slot& slot) {
  std::cout << "working with slot " << slot.number() << std::endl;
  const std::stop_token lost = slot.stop_token();
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int step = 1; step <= 3 && !lost.stop_requested(); ++step) {
    timer.expires_after(20ms);
    co_await timer.async_wait(asio::use_awaitable);
    std::cout << "  step " << step << " of 3" << std::endl;
  }
}

// readme {
asio::awaitable<void> run(rabbitmq::client broker) {
  rabbitmq::semaphore sem(broker, {.name = "holdfast-example", .create_with = 2});
  rabbitmq::slot slot = co_await sem.acquire();  // waits while all slots are held
  co_await work(slot);                           // ends early if the slot is lost
  co_await slot.release();                       // throws if the slot was lost
}
// } readme

}  // namespace

int main() {
  try {
    rabbitmq::config config = rabbitmq::config::from_environment();  // reads AMQP_URL
    std::optional<holdfast::testing::broker> fake;
    if (std::getenv("AMQP_URL") == nullptr) config.address = fake.emplace().url();
    asio::io_context io;
    const auto rethrow = [](std::exception_ptr failed) {
      if (failed) std::rethrow_exception(failed);
    };
    asio::co_spawn(io, run(rabbitmq::client(io, config)), rethrow);
    io.run();
    std::cout << "released" << std::endl;
    return 0;
  } catch (const std::exception& failed) {
    std::cerr << failed.what() << std::endl;
    return 1;
  }
}

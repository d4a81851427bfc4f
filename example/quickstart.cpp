// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A complete program with one semaphore and one slot. The lines between the marks are shown at the top of README. The
// program uses the Consul that CONSUL_HTTP_ADDR names, or else a fake Consul in this process.

// readme {
#include <boost/asio.hpp>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>

boost::asio::awaitable<void> work(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "quickstart/reports", .limit = 2});
  holdfast::slot slot = co_await sem.acquire();  // waits while the cluster has two holders
  std::cout << "working, with fencing token " << slot.fencing_token().to_string() << std::endl;
  co_await slot.release();  // the destructor releases it, too
}

int main() {
  boost::asio::io_context io;
  auto config = holdfast::consul::config::from_environment();  // reads CONSUL_HTTP_ADDR
  holdfast::testing::server fake;                              // used without CONSUL_HTTP_ADDR
  if (std::getenv("CONSUL_HTTP_ADDR") == nullptr) config = fake.client_config();
  const auto rethrow = [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  };
  boost::asio::co_spawn(io, work(holdfast::consul::client(io, config)), rethrow);
  io.run();
}
// } readme

// A whole program: one semaphore, one slot. The lines between the marks are README's first screen. It runs on the
// Consul that CONSUL_HTTP_ADDR names, or else on a fake one, in this process.

// readme {
#include <boost/asio.hpp>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>

boost::asio::awaitable<void> work(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "quickstart/reports", .limit = 2});
  holdfast::slot slot = co_await sem.acquire();  // waits while two others in the cluster hold one
  std::cout << "working, with fencing token " << slot.fencing_token().to_string() << std::endl;
  co_await slot.release();  // the destructor does it too, in the background
}

int main() {
  boost::asio::io_context io;
  auto config = holdfast::consul::config::from_environment();  // reads CONSUL_HTTP_ADDR
  holdfast::testing::server fake;                              // stands in for Consul without it
  if (std::getenv("CONSUL_HTTP_ADDR") == nullptr) config = fake.client_config();
  const auto rethrow = [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  };
  boost::asio::co_spawn(io, work(holdfast::consul::client(io, config)), rethrow);
  io.run();
}
// } readme

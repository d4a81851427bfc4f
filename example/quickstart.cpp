// A whole program: one semaphore, one slot. The lines between the marks are README's first screen.
//
//   quickstart                               runs on a fake Consul, in this process
//   quickstart --consul URL                  on a real agent, say http://127.0.0.1:8500

#include <string_view>

// readme {
#include <boost/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <optional>

boost::asio::awaitable<void> work(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "quickstart/reports", .limit = 2});
  holdfast::slot slot = co_await sem.acquire();  // waits until fewer than two hold one, in the whole cluster
  std::cout << "working, with fencing token " << slot.fencing_token().to_string() << std::endl;
  co_await slot.release();  // the destructor does it too, in the background
}

int main(int argc, char** argv) try {
  // } readme
  if (argc != 1 && (argc != 3 || argv[1] != std::string_view("--consul"))) {
    std::cerr << "usage: quickstart [--consul URL]\n";
    return 2;
  }
  // readme {
  auto config = holdfast::consul::config::from_environment();  // in production: it reads CONSUL_HTTP_ADDR
  std::optional<holdfast::testing::server> fake;
  if (argc == 1) config = fake.emplace().client_config();  // to try it: a fake Consul, in this process
  if (argc == 3) config.address = argv[2];                 // --consul URL
  // } readme
  if (fake) std::cerr << holdfast::testing::server::banner << '\n';
  // readme {

  boost::asio::io_context io;
  holdfast::consul::client consul(io, config);
  auto result = boost::asio::co_spawn(io, work(consul), boost::asio::use_future);
  io.run();
  result.get();  // throws what the coroutine has thrown
} catch (const std::exception& failed) {
  std::cerr << failed.what() << '\n';
  return 1;
}
// } readme

// A whole program: one semaphore, one slot. It takes no options; CONSUL_HTTP_ADDR says where Consul is (default
// 127.0.0.1:8500). The lines between the marks are README's first screen.

// readme {
#include <boost/asio.hpp>
#include <holdfast/holdfast.hpp>
#include <iostream>

boost::asio::awaitable<void> work(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "quickstart/reports", .limit = 2});
  holdfast::slot slot = co_await sem.acquire();  // waits until fewer than two hold one, in the whole cluster
  std::cout << "working, with fencing token " << slot.fencing_token().to_string() << std::endl;
  co_await slot.release();  // the destructor does it too, in the background
}

int main() try {
  boost::asio::io_context io;
  holdfast::consul::client consul(io, holdfast::consul::config::from_environment());
  auto result = boost::asio::co_spawn(io, work(consul), boost::asio::use_future);
  io.run();
  result.get();  // throws what the coroutine has thrown
} catch (const std::exception& failed) {
  std::cerr << failed.what() << '\n';
  // } readme
  std::cerr << "Is a Consul agent running, and does CONSUL_HTTP_ADDR name it? For a try: consul agent -dev\n"
               "Or let scripts/with-agent start one for this program: scripts/with-agent PROGRAM\n";
  // readme {
  return 1;
}
// } readme

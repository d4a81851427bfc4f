// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Step 4 of the tutorial: a leader, a standby and an observer. doc/tutorial/leader.md explains the program.

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// readme candidate {
asio::awaitable<void> candidate(holdfast::election& election, std::string address) {
  holdfast::leadership term = co_await election.campaign(address);  // waits until it is elected
  std::cout << address << " leads, with fencing token " << term.fencing_token().to_string() << std::endl;
  asio::steady_timer timer(co_await asio::this_coro::executor, 300ms);
  co_await timer.async_wait(asio::use_awaitable);
  std::cout << address << " resigns" << std::endl;
  co_await term.resign();
}
// } readme

// readme observer {
asio::awaitable<void> observer(holdfast::consul::client consul) {
  holdfast::election_observer election(consul, "tutorial/leader");
  for (int terms = 0; terms != 2;) {
    const auto leader = co_await election.next();  // the leader now, and then each change
    if (leader) std::cout << "the leader is at " << leader->value << std::endl;
    if (leader) ++terms;
  }
}
// } readme

// readme all {
asio::awaitable<void> all(holdfast::consul::client consul) {
  using namespace asio::experimental::awaitable_operators;
  holdfast::election election(consul, {.key = "tutorial/leader"});
  co_await (candidate(election, "10.0.0.1:80") && candidate(election, "10.0.0.2:80") && observer(consul));
}
// } readme

int main() {
  asio::io_context io;
  holdfast::testing::server fake;
  auto config = fake.client_config();
  if (std::getenv("CONSUL_HTTP_ADDR")) config = holdfast::consul::config::from_environment();
  asio::co_spawn(io, all(holdfast::consul::client(io, config)), [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  });
  io.run();
}

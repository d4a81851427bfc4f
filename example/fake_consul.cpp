// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Runs the fake Consul on a port until Ctrl-C. Clients that cannot run the fake in their own process can use it: curl,
// Consul's command line, or a program in another language.

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <holdfast/testing/server.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  holdfast::testing::server_options options;
  options.port = 8500;  // Consul's default port, which programs use by default
  if (argc > 1) {
    const char* const end = argv[1] + std::strlen(argv[1]);
    const auto [stopped_at, error] = std::from_chars(argv[1], end, options.port);
    if (argc > 2 || error != std::errc() || stopped_at != end) {
      std::cerr << "usage: fake_consul [PORT]\n\n"
                   "Runs a fake Consul on PORT of 127.0.0.1 (8500; 0: any that is free) until Ctrl-C.\n";
      return std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
  }

  holdfast::testing::server consul(options);
  std::cout << consul.banner << "\n\nListening. In another terminal:\n\n  export CONSUL_HTTP_ADDR=" << consul.url()
            << "\n  curl -X PUT -d hello $CONSUL_HTTP_ADDR/v1/kv/greeting"
            << "\n  curl $CONSUL_HTTP_ADDR/v1/kv/greeting?raw\n\nCtrl-C ends it, and everything in it." << std::endl;

  boost::asio::io_context io;
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([](const boost::system::error_code&, int) {});
  io.run();
} catch (const std::exception& failed) {
  std::cerr << failed.what() << '\n';
  return 1;
}

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/serve_fake.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <holdfast/testing/server.hpp>
#include <iostream>

namespace holdfast::cli {

int serve_fake(std::uint16_t port) {
  testing::server_options options;
  options.port = port;
  testing::server consul(options);
  std::cout << consul.banner << "\n\nIn another terminal:\n\n  export CONSUL_HTTP_ADDR=" << consul.url()
            << "\n  holdfast run service/db -- sleep 60 &\n  holdfast run service/db -- echo my turn &"
            << "\n  holdfast inspect service/db\n\nCtrl-C ends it, and everything in it." << std::endl;
  boost::asio::io_context io;
  boost::asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([](const boost::system::error_code&, int) {});
  io.run();
  return 0;
}

}  // namespace holdfast::cli

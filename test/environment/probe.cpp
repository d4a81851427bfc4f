// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Asks for one key with the settings of the environment. environment.py compares it with `consul kv get`.

#include <boost/asio/io_context.hpp>
#include <holdfast/consul/client.hpp>
#include <iostream>

int main() {
  namespace consul = holdfast::consul;
  boost::asio::io_context io;
  holdfast::diagnostics why;
  consul::read_options once;
  once.request.retry = false;
  once.request.diag = &why;
  try {
    consul::config settings = consul::config::from_environment();
    settings.connect_timeout = std::chrono::seconds(5);
    consul::client client(io, std::move(settings));
    int status = 0;
    client.get("k", once, [&](const boost::system::error_code& ec, const auto&) {
      if (ec) std::cerr << why.message << '\n';
      status = ec ? 1 : 0;
    });
    io.run();
    return status;
  } catch (const holdfast::system_error& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}

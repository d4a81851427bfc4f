// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A user's program. It shows that the headers are found and free of warnings, and that both libraries link: one
// contains an error's message, and the other a server. Its own code may use what Asio has deprecated.
#include <boost/asio.hpp>
#include <cstring>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/proxy.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>

int main(int argc, char** argv) {
#if BOOST_VERSION < 108700  // which has removed it
  boost::asio::io_service io;
  bool ran = false;
  io.post([&ran] { ran = true; });
  io.run();
#else
  const bool ran = true;
#endif
  const auto message = make_error_code(holdfast::error::slot_lost).message();
  const holdfast::testing::server fake;
  std::cout << "holdfast " << HOLDFAST_VERSION_STRING << ": \"" << message << "\", and a fake Consul at " << fake.url()
            << '\n';
  const bool expected_version = argc == 2 && std::strcmp(argv[1], HOLDFAST_VERSION_STRING) == 0;
  return ran && expected_version && !message.empty() ? 0 : 1;
}

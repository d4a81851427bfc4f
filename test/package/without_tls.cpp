// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A library that was built without TLS refuses https by name, and speaks plain.

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <holdfast/consul/client.hpp>
#include <string>

int main() {
  boost::asio::io_context io;
  holdfast::consul::config settings;
  const holdfast::consul::client plain(io, settings);
  settings.address = "https://127.0.0.1:8501";
  try {
    const holdfast::consul::client secure(io, settings);
  } catch (const holdfast::system_error& e) {
    std::puts(e.what());
    const bool is_named = std::string(e.what()).find("HOLDFAST_TLS=OFF") != std::string::npos;
    return e.code() == holdfast::error::unsupported_scheme && is_named ? 0 : 1;
  }
  return 1;
}

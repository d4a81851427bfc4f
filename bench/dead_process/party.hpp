// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdio>
#include <holdfast/holdfast.hpp>
#include <string>
#include <thread>

namespace holdfast::bench {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::seconds;

inline double seconds_since(clock::time_point start) { return duration<double>(clock::now() - start).count(); }

/// A Consul client with its own connections, on its own thread.
class party {
public:
  explicit party(const std::string& address) : client(io_, settings(address)) {
    thread_ = std::thread([this] { io_.run(); });
  }
  party(const party&) = delete;
  party& operator=(const party&) = delete;
  ~party() { stop(); }

  /// Locks and slots of a stopped party must not be used, but they may be destroyed.
  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

private:
  static consul::config settings(const std::string& address) {
    consul::config result;
    result.address = address;
    result.log = [](const holdfast::log_event& event) { std::fprintf(stderr, "client: %s\n", event.text().c_str()); };
    return result;
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;

public:
  consul::client client;
};

}  // namespace holdfast::bench

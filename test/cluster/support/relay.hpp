// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

namespace holdfast::test {

/// A TCP relay on a port of 127.0.0.1, in front of a server. It fails on demand, and the server stays healthy. It
/// passes bytes on as they are, so the server may speak TLS. It runs on a thread of its own.
class relay {
public:
  enum class manner {
    passes_on,  ///< connections that hung are reset when the relay enters this manner
    resets,     ///< the open connections are reset, and each new one after it was accepted
    hangs,      ///< nothing is passed on; new connections are accepted
    delays,     ///< bytes from the server arrive later, by the time that was passed to the constructor
  };

  relay(const std::string& host, std::uint16_t port, std::chrono::milliseconds late);
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  ~relay();

  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  /// Returns when the new manner is in effect.
  void become(manner next);
  /// Resets the open connections. Returns when that is done.
  void reset_connections();
  /// The number of connections so far, including those that were reset.
  std::size_t accepted() const { return accepted_; }

private:
  struct direction;
  struct connection;
  using connection_ptr = std::shared_ptr<connection>;

  boost::asio::awaitable<void> accept();
  boost::asio::awaitable<void> serve(connection_ptr c);
  boost::asio::awaitable<void> read(connection_ptr c, direction& way);
  boost::asio::awaitable<void> write(connection_ptr c, direction& way);
  void close(const connection_ptr& c);
  static void reset(connection& c);
  void reset_all();
  void run(std::function<void()> step);

  boost::asio::io_context io_{1};
  const boost::asio::ip::tcp::endpoint server_;
  const std::chrono::milliseconds late_;
  boost::asio::ip::tcp::acceptor acceptor_;
  manner manner_ = manner::passes_on;
  std::set<connection_ptr> open_;
  std::atomic<std::size_t> accepted_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <string>
#include <string_view>

namespace holdfast::test {

namespace asio = boost::asio;

/// Bytes that were received on a connection: one reply, the bytes of one read, or all bytes until the connection's end.
struct received {
  std::string bytes{};
  boost::system::error_code end{};  ///< set if the connection has ended

  bool was_reset() const;
  int status() const;  ///< 0 if there is none
  std::string_view body() const;
  /// The value of the header line `name`; empty if there is none.
  std::string_view header(std::string_view name) const;
};

/// A connection on which a test can send any bytes.
class raw_client {
public:
  /// `address` is "127.0.0.1:port". Nothing is connected yet.
  raw_client(const asio::any_io_executor& ex, const std::string& address);

  asio::awaitable<boost::system::error_code> connect();
  /// Connects if it is not connected. The call reports no failure; `receive` shows it.
  asio::awaitable<void> send(std::string bytes);
  /// Receives one reply with a Content-Length.
  asio::awaitable<received> receive();
  /// Receives the bytes of the next read.
  asio::awaitable<received> receive_some();
  /// Receives all bytes until the connection ends.
  asio::awaitable<received> receive_all();
  /// `send` of a request with this body, and `receive`.
  asio::awaitable<received> ask(std::string_view method, std::string_view target, std::string_view body = {});

  void close();
  void reset();

private:
  asio::awaitable<boost::system::error_code> read_more();

  asio::ip::tcp::socket socket_;
  asio::ip::tcp::endpoint server_;
  std::string buffered_;
};

std::string request(std::string_view method, std::string_view target, std::string_view body = {});

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "support/certificates.hpp"

namespace holdfast::test {

namespace asio = boost::asio;

/// How a secure server behaves.
struct secure_server_options {
  identity own{};
  std::string clients{};   ///< PEM of the authority that must have signed the clients; empty: no client authentication
  int version_max = 0;     ///< OpenSSL's TLS1_2_VERSION, say; 0: the newest
  bool keeps_open = true;  ///< after a reply
  std::size_t body = 0;    ///< the size of each reply's body
  enum class manner {
    answers,        ///< 404, to everything
    truncates,      ///< sends a reply whose body ends with the connection, and closes that without TLS's close_notify
    is_silent,      ///< accepts connections and reads, and never sends anything
    is_plain,       ///< speaks HTTP without TLS
    never_replies,  ///< reads requests and does not answer them
    says_more,      ///< answers, and then sends another reply without a request
  } does = manner::answers;
};

/// A server that speaks TLS, on a free port of 127.0.0.1, in the background of the test. Make it by `std::make_shared`,
/// and stop it.
class secure_server : public std::enable_shared_from_this<secure_server> {
public:
  secure_server(asio::any_io_executor ex, secure_server_options options);
  void start();
  void stop() { acceptor_.close(); }

  std::string url(const std::string& host = "127.0.0.1") const;
  /// Sets the options for connections that are accepted from now on.
  void change(secure_server_options options);

  int handshakes = 0;  ///< handshakes that were completed
  int resumed = 0;     ///< those of them that resumed a session
  std::vector<std::string> requests{};
  std::vector<std::string> names{};  ///< the server name of each handshake (SNI); "" if there is none
  std::size_t bytes = 0;             ///< read first from each connection, if `is_silent` or `is_plain`

private:
  asio::awaitable<void> listen();
  asio::awaitable<void> serve(asio::ip::tcp::socket socket);

  asio::ip::tcp::acceptor acceptor_;
  secure_server_options options_;
  std::shared_ptr<asio::ssl::context> context_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace holdfast::test {

namespace asio = boost::asio;

/// One connection that a scripted server has accepted. The test calls each of its steps, in any order.
class scripted_peer {
public:
  explicit scripted_peer(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  /// The next request, head and body. Empty if the client closed the connection.
  asio::awaitable<std::string> read_request();
  asio::awaitable<void> send(std::string bytes);
  /// Replies with status 200, this body, and these header lines (each with its CRLF).
  asio::awaitable<void> reply(std::string body, std::string headers = {});
  /// Replies with another status.
  asio::awaitable<void> refuse(int status, std::string body = {});
  /// Completes when the client has closed the connection. Returns false if it has sent something instead.
  asio::awaitable<bool> closed_by_client();

  void close();  ///< FIN
  void reset();  ///< RST

private:
  asio::ip::tcp::socket socket_;
  std::string received_;
};

/// A server without a protocol of its own. The test accepts connections, reads requests, and may answer them.
class scripted_server {
public:
  /// On a free port of the loopback.
  explicit scripted_server(asio::any_io_executor ex);
  scripted_server(asio::any_io_executor ex, asio::ip::tcp::endpoint endpoint);

  std::string address() const;
  asio::ip::tcp::endpoint endpoint() const;
  asio::awaitable<scripted_peer> accept();
  /// Accepts a connection and reads its first request.
  asio::awaitable<std::pair<scripted_peer, std::string>> accept_request();
  /// Connections are refused from now on, as long as this object exists: it keeps the port, so that no server of a test
  /// that runs at the same time gets it.
  void stop();

private:
  asio::ip::tcp::acceptor acceptor_;
};

/// An operation that was started and runs beside the test: `pending<bool> put(ex, client.put("k", "v"));`
template <class... Results>
class pending {
public:
  template <class Operation>
  pending(const asio::any_io_executor& ex, Operation operation) : state_(std::make_shared<state>(ex)) {
    std::move(operation)(answer{state_});
  }

  bool ready() const { return state_->results.has_value(); }

  /// The error it completed with.
  asio::awaitable<boost::system::error_code> wait() {
    const auto shared = state_;
    while (!shared->results) {
      boost::system::error_code ignored;
      co_await shared->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return shared->error;
  }

  /// The (first) result; after `wait`.
  const auto& value() const { return std::get<0>(*state_->results); }
  auto take() { return std::move(std::get<0>(*state_->results)); }

private:
  struct state {
    explicit state(const asio::any_io_executor& ex) : done(ex, asio::steady_timer::time_point::max()) {}
    boost::system::error_code error;
    std::optional<std::tuple<Results...>> results;
    asio::steady_timer done;
  };
  // The handler of an operation. Operations with the default token pass an exception, others an error code.
  struct answer {
    std::shared_ptr<state> shared;
    void operator()(const std::exception_ptr& failure, Results... results) const {
      boost::system::error_code ec;
      try {
        if (failure) std::rethrow_exception(failure);
      } catch (const boost::system::system_error& e) {
        ec = e.code();
      }
      (*this)(ec, std::move(results)...);
    }
    void operator()(boost::system::error_code ec, Results... results) const {
      shared->error = ec;
      shared->results.emplace(std::move(results)...);
      shared->done.cancel();
    }
  };
  std::shared_ptr<state> state_;
};

}  // namespace holdfast::test

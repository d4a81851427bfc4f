// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/asio.hpp"
#include "testing/http.hpp"

namespace holdfast::testing::detail {

namespace asio = boost::asio;
using net::as_result;
using net::awaitable;
using net::clock;
using net::strand_type;
using net::time_point;
using net::timer_type;
using socket_type = asio::basic_stream_socket<asio::ip::tcp, strand_type>;

class front_impl;
class connection;

/// Answers the requests of one client's connection, from the model or from an agent. Used on the strand only.
class exchange {
public:
  virtual ~exchange() = default;
  /// Returns the reply. If there is none, the client gets `connection::interruption`. If that is not set, the client's
  /// connection is reset, or closed if `connection::overdue` is set.
  virtual awaitable<std::optional<api_reply>> perform(const http_request& request) = 0;
  virtual awaitable<void> end_session(std::string id) = 0;
  /// Makes the pending operation complete at once, without a reply. `connection::abandoned()` must be true.
  virtual void abandon() noexcept = 0;
};

/// A client's connection. It reads bytes while there is room for them, even while a request is pending, because
/// otherwise it would not notice that the client has gone. One coroutine serves the connection. It waits by `changed()`
/// in a loop that checks a condition.
class connection final : public std::enable_shared_from_this<connection> {
public:
  /// `run` is the run of the listener that has accepted the connection.
  connection(socket_type accepted, std::size_t body_bytes_max, unsigned run);

  /// Completes after `wake`, at `until`, or earlier.
  awaitable<void> changed(time_point until = time_point::max());
  void wake() { timer_.cancel(); }
  /// Returns false if the bytes cannot be sent.
  awaitable<bool> send(std::string_view bytes);
  /// Closes the connection gracefully: the client receives all bytes that were sent, then the end of the stream. It has
  /// half a second for that.
  awaitable<void> finish();
  /// Closes the connection with a TCP reset. The request that is being served is still applied, unless it is a blocking
  /// query. No later request is.
  void reset() noexcept;
  /// Closes the connection with a TCP reset, and cancels its requests.
  void drop() noexcept;
  /// Continues to read in the background while there is room. Must be called after each `requests.parse()`.
  void receive();

  const asio::ip::address& peer() const noexcept { return peer_; }
  const unsigned run;
  request_reader requests;
  std::unique_ptr<exchange> behind;

  bool gone = false;     ///< no more bytes will arrive from the client
  bool dropped = false;  ///< closed by `drop()`: nothing more may happen for it
  bool held = false;     ///< a freeze holds its request or reply
  bool blocked = false;  ///< its request is a blocking query that waits
  bool overdue = false;  ///< its query has waited too long: the connection is closed without a reply
  /// The reply that a waiting query gets instead of its own.
  std::optional<api_reply> interruption;

  /// True if a blocking query must stop waiting.
  bool abandoned() const noexcept { return gone || dropped || interruption; }

private:
  void lose() noexcept;
  void received(const boost::system::error_code& ec, std::size_t size);

  socket_type socket_;
  timer_type timer_;
  const asio::ip::address peer_;
  std::array<char, 8192> incoming_;
  bool receiving_ = false;
  bool discards_ = false;  // discards the bytes that arrive after finish()
};

}  // namespace holdfast::testing::detail

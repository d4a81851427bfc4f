// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/address.hpp"
#include "net/asio.hpp"
#include "net/resolve.hpp"
#include "net/tls.hpp"
#include "net/waiting.hpp"
#include "rabbitmq/counters.hpp"
#include "rabbitmq/dialogue.hpp"

namespace holdfast::rabbitmq::detail {

namespace asio = boost::asio;
using net::awaitable;
using net::strand_type;
using net::time_point;

/// One AMQP connection: the I/O and the timers of a `dialogue`. A read is always pending on it, so it keeps the
/// io_context running. Lives on the strand. Ends by itself:
///
/// - when the broker closes it, or sends something that is not expected;
/// - when no byte has come for two heartbeats;
/// - when a request is not answered by its deadline, unless the broker has an alarm and takes no messages;
/// - when it is idle, at the time that `keep_until` has set.
class connection : public std::enable_shared_from_this<connection> {
public:
  using endpoint = asio::generic::stream_protocol::endpoint;

  connection(const strand_type& strand, dialogue::terms terms, std::shared_ptr<counters> statistics);
  ~connection() { close_socket(); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Connects, verifies the broker's certificate if there is `tls`, logs in, and opens channel 1. Completes without an
  /// error when requests can be sent. Nothing of the login is sent before the certificate is verified. While the
  /// connection is open, it keeps `owner`. Errors: unreachable, certificate_refused, client_certificate_refused,
  /// permission_denied, too_many_requests, malformed_reply, server_error, timed_out.
  awaitable<failure> open(std::shared_ptr<void> owner, endpoint at, net::address to, net::tls_client* tls,
                          time_point deadline, dialogue::listener told);

  bool is_open() const noexcept { return dialogue_.is_open(); }
  bool is_blocked() const noexcept { return dialogue_.is_blocked(); }
  bool has_pending() const noexcept { return dialogue_.has_pending(); }

  std::uint16_t open_channel(bool with_confirms, channel_user user);
  void set_user(std::uint16_t channel, channel_user user) { dialogue_.set_user(channel, std::move(user)); }
  /// Sends a request. If the connection is not open, `then` is posted with an error.
  void ask(std::uint16_t channel, steps what, time_point deadline, dialogue::answer_function then);
  /// Sends a step that has no answer.
  void tell(std::uint16_t channel, const step& what);

  /// If no request is pending then, the connection is closed at this time. `time_point::max()`: never.
  void keep_until(time_point when);
  /// Closes the connection as AMQP has it, and waits for the broker's answer, but at most for `close_time`. With a
  /// pending request, closes it at once. Users of channels are told that it has ended.
  void close(failure why = {error::connection_lost, {"this client has closed the connection", {}, {}, {}}});
  /// Closes the connection at once.
  void abort(failure why);
  /// The execution context is being destroyed: releases the socket and the timers. Nobody is told anything.
  void release() noexcept;

  static constexpr std::chrono::seconds close_time{1};
  /// How long requests may take after an alarm, before which they had to wait.
  static constexpr std::chrono::seconds after_alarm{5};
  static constexpr std::uint16_t first_channel = 1;

private:
  static awaitable<void> read_all(std::shared_ptr<connection> self, std::shared_ptr<void> owner);
  static awaitable<void> write_all(std::shared_ptr<connection> self);
  awaitable<failure> connect(endpoint at, net::address to, net::tls_client* tls);
  void configure();
  void flush();
  void write_now();
  void lost(error_code cause);
  void arm();
  void on_timer();
  void append_heartbeat_if_due(time_point now);
  bool may_wait_once_more();
  time_point late_at() const noexcept;
  void wake_opener();
  void close_socket() noexcept;

  const strand_type strand_;
  const std::shared_ptr<counters> statistics_;
  const net::clock::duration heartbeat_;
  net::socket_type socket_;
  std::unique_ptr<net::tls_stream> secure_{};
  dialogue dialogue_;
  net::wake_timer timer_;
  net::waiter_list opener_{};
  std::string writing_{};
  bool is_writing_ = false;
  bool was_spared_ = false;  // a deadline has passed while there were bytes to read
  bool is_opening_ = true;
  time_point open_deadline_ = time_point::max();
  time_point close_deadline_ = time_point::max();
  time_point idle_deadline_ = time_point::max();
  time_point unblocked_at_{};
  time_point received_at_{};
  time_point sent_at_{};
};

}  // namespace holdfast::rabbitmq::detail

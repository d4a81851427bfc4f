// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "consul/connections/counters.hpp"
#include "consul/encoding/http.hpp"
#include "consul/encoding/url.hpp"
#include "consul/net_names.hpp"
#include "net/asio.hpp"
#include "net/tls.hpp"

namespace holdfast::consul::detail {

/// The result of one attempt: a reply, an error of this library with its cause, or both.
struct attempt_result {
  error_code error;
  error_code cause;       ///< the error of the system, Asio or OpenSSL behind `error`, if there is one
  std::string message{};  ///< details of the error
  http_reply reply;
  std::size_t agent = 0;  ///< the number of the agent that was asked; 0 if none was, or after a cancellation
  unsigned token = 0;     ///< the version of the token that was sent
  std::shared_ptr<const std::string> secret{};  ///< that token
  bool turned_away = false;                     ///< the agent refused the connection: the request may be tried again
  bool is_in_doubt = false;  ///< this attempt, or one before it, may have been applied although `error` does not say so
  bool was_connected = false;   ///< `error` is unreachable, but there was a connection
  bool is_cut = false;          ///< the stream ended before any byte of a reply; not set after a reset
  bool is_barred = false;       ///< a new connection was closed, or answered 429, before it had served a request
  bool has_no_address = false;  ///< no IP address was found for the second agent of a name
  bool goes_on = false;         ///< another agent is current now: the request may be sent there at once
  bool is_held_up = false;      ///< in an outage it is not the turn of this request: nothing was tried
  bool is_cancelled = false;    ///< the request was cancelled, by the user or by close()
  bool shows_no_agent = false;  ///< `error` is unreachable, and not only for lack of time
};

/// One connection to the agent, over TCP or a UNIX socket, for one request at a time. Between requests no operation is
/// pending on it, so an idle connection does not keep the io_context running. Lives on the strand.
class connection : public std::enable_shared_from_this<connection> {
public:
  using endpoint = asio::generic::stream_protocol::endpoint;
  using endpoints = std::vector<endpoint>;

  /// Without `tls` the connection is not encrypted.
  connection(const strand_type& strand, std::shared_ptr<counters> statistics, std::size_t reply_bytes_max,
             tls_client* tls = nullptr);
  ~connection();

  /// Tries the candidates one after the other, and completes when one is connected. The candidates are endpoints of
  /// `to`, or of a proxy. If `tunnel` is not empty, it is sent to the proxy first (RFC 9110, CONNECT). If all fail,
  /// completes with the error of the last one that was tried: unreachable, certificate_refused or
  /// client_certificate_refused. After a timeout the error is unreachable, and its cause is asio::error::timed_out.
  ///
  /// For the TCP handshake, each candidate has an equal part of the time that is left, but at least
  /// `candidate_time_min` unless the deadline comes first. A candidate whose TCP connection is established may use all
  /// the time that is left, except `candidate_time_min` for each of the candidates behind it. It has at least its part.
  awaitable<attempt_result> connect(endpoints candidates, time_point deadline, const agent_address& to,
                                    std::string tunnel = {});

  /// Writes the request and reads the reply. Without TLS, if nothing was written, fails with unreachable. With TLS it
  /// is unknown how much of a failed write was sent, so the request may have arrived. After timed_out, connection_lost,
  /// malformed_reply and reply_too_large the request may have arrived, too. After client_certificate_refused the agent
  /// has not read it.
  awaitable<attempt_result> converse(const std::string& request, bool is_write, time_point deadline);

  /// Closes the connection. A pending operation fails at once with connection_lost, or with unreachable if it is
  /// `connect`, or if it has sent nothing and there is no TLS.
  void give_up() noexcept {
    is_given_up_ = true;
    close();
  }
  bool is_given_up() const noexcept { return is_given_up_; }
  /// Returns true if the connection can take another request after the last reply.
  bool reusable() const noexcept;
  /// Returns true if a byte of any reply has arrived.
  bool has_answered() const noexcept { return has_answered_; }
  time_point opened_at() const noexcept { return opened_at_; }
  /// The endpoint that it was connected to: the agent's or the proxy's.
  const endpoint& peer() const noexcept { return peer_; }
  /// The endpoints that used up their time, and at least `candidate_time_min`, while `connect` tried them.
  const endpoints& unresponsive() const noexcept { return unresponsive_; }
  /// Returns false if the agent has closed this idle connection, or has sent bytes that no request asked for.
  bool is_alive() noexcept;

  static constexpr std::chrono::milliseconds candidate_time_min{200};

private:
  class alarm;

  void configure();
  awaitable<attempt_result> ask_for_tunnel(const std::string& tunnel);
  void close() noexcept;

  socket_type socket_;
  tls_client* const tls_;
  std::unique_ptr<tls_stream> secure_;  // with TLS, once it is connected
  timer_type timer_;
  reply_parser parser_;
  std::shared_ptr<counters> statistics_;
  unsigned turn_ = 0;       // the number of the current alarm, by which a late expiry of an earlier alarm is ignored
  bool expired_ = false;    // the alarm has closed the socket
  bool connected_ = false;  // counted in connections_open
  bool has_answered_ = false;
  bool is_given_up_ = false;
  time_point opened_at_;
  endpoint peer_;
  endpoints unresponsive_;
};

}  // namespace holdfast::consul::detail

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "counters.hpp"
#include "http.hpp"
#include "net.hpp"
#include "tls.hpp"

namespace holdfast::consul::detail {

/// What came of one attempt: a reply, or an error of ours with the system's reason behind it.
struct attempt_result {
  error_code error;
  error_code cause;
  std::string message{};  ///< more about the error
  http_reply reply;
  std::size_t agent = 0;                        ///< which was asked
  unsigned token = 0;                           ///< the version of the token that was sent
  std::shared_ptr<const std::string> secret{};  ///< that token
  bool turned_away = false;     ///< the agent did not take the connection: the request may be tried again
  bool is_cut = false;          ///< the agent closed the connection before it said anything
  bool is_barred = false;       ///< a new connection was closed, or answered 429, before it had served a request
  bool has_no_address = false;  ///< the agent has no IP address of its own
  bool goes_on = false;         ///< another agent is asked from now on: the request may be sent there at once
  bool is_held_up = false;      ///< an outage began while the request waited: nothing was tried
  bool is_cancelled = false;    ///< by the user
  bool shows_no_agent = false;  ///< a connection was tried for long enough, and could not be made
};

/// One connection to the agent, by TCP or a UNIX socket, for one request at a time. Between requests it has no
/// operation outstanding, so it keeps no io_context running. Lives on the strand.
class connection : public std::enable_shared_from_this<connection> {
public:
  using endpoint = asio::generic::stream_protocol::endpoint;
  using endpoints = std::vector<endpoint>;

  /// `tls`: none, to speak plain.
  connection(const strand_type& strand, std::shared_ptr<counters> statistics, std::size_t reply_bytes_max,
             tls_client* tls = nullptr);
  ~connection();

  /// Tries one after the other, `to`'s, or those of a proxy, to which `tunnel` is said first if it is not empty (RFC
  /// 9110, CONNECT). Ends with the last one's error: unreachable, with asio::error::timed_out for its cause after the
  /// deadline; certificate_refused, client_certificate_refused.
  ///
  /// Each candidate has an equal part of the time for TCP's handshake, but at least `candidate_time_min`. Once TCP
  /// stands, it has all that is left, less that least time for each candidate that is still to come.
  awaitable<attempt_result> connect(endpoints candidates, time_point deadline, const agent_address& to,
                                    std::string tunnel = {});

  /// Writes the request and reads the reply. error::unreachable: nothing was written. timed_out, connection_lost,
  /// malformed_reply, reply_too_large: the request may have arrived.
  awaitable<attempt_result> converse(const std::string& request, bool is_write, time_point deadline);

  /// What is under way ends at once: connection_lost, or unreachable if nothing was sent.
  void give_up() noexcept {
    is_given_up_ = true;
    close();
  }
  bool is_given_up() const noexcept { return is_given_up_; }
  /// Whether the last reply left the connection fit for another request.
  bool reusable() const noexcept;
  /// Whether the agent has ever sent anything.
  bool has_answered() const noexcept { return has_answered_; }
  time_point opened_at() const noexcept { return opened_at_; }
  /// To whom it was connected.
  const endpoint& peer() const noexcept { return peer_; }
  /// The endpoints that used up their time while `connect` tried them.
  const endpoints& unresponsive() const noexcept { return unresponsive_; }
  /// Whether the agent has neither closed an idle connection nor sent something that nobody asked for.
  bool is_alive() noexcept;

  static constexpr std::chrono::milliseconds candidate_time_min{200};

private:
  class alarm;

  error_code open(const asio::generic::stream_protocol& protocol);
  void configure();
  awaitable<attempt_result> ask_for_tunnel(const std::string& tunnel);
  void close() noexcept;

  socket_type socket_;
  tls_client* const tls_;
  std::unique_ptr<tls_stream> secure_;  // with TLS, once it is connected
  timer_type timer_;
  reply_parser parser_;
  std::shared_ptr<counters> statistics_;
  unsigned turn_ = 0;       // which alarm is set: a late expiry of an earlier one finds another number
  bool expired_ = false;    // the alarm has closed the socket
  bool connected_ = false;  // counted in connections_open
  bool has_answered_ = false;
  bool is_given_up_ = false;
  time_point opened_at_;
  endpoint peer_;
  endpoints unresponsive_;
};

}  // namespace holdfast::consul::detail

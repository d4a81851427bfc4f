// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::consul {

enum class request_kind;

namespace detail {

/// The type of a request's body.
enum class content { none, json, bytes };

/// A request without the parts that depend on the agent or on the time of sending: see `agent_lines` and the token.
struct http_request {
  request_kind kind{};  ///< the meaning of a reply depends on it
  std::string_view method = "GET";
  std::string target{};  ///< path and query
  std::string body{};
  content type = content::none;
  bool is_write = false;        ///< the request changes something in Consul (for the statistics)
  bool repeatable = false;      ///< the request may be sent once more, whatever the result of the last attempt
  bool waits_in_outage = true;  ///< while no agent can be reached, the request waits for one until its deadline
  /// The wait that a blocking query asks Consul for. 0 for all other requests.
  std::chrono::milliseconds wait{0};
  /// How much longer than `wait` the reply to a blocking query may take.
  std::chrono::milliseconds slack{0};
};

/// Returns the blocking query with another wait.
http_request with_wait(http_request request, std::chrono::milliseconds wait);

/// The parts that all requests to one agent share.
struct agent_lines {
  /// The text before each target: the path of the agent's address, and for a forwarding proxy also the address itself.
  std::string before_target{};
  std::string headers{};  ///< whole lines, each with its CRLF
};

/// Returns the request in one buffer, so that a small request leaves in one segment. An empty `token` is not sent.
std::string to_bytes(const http_request& request, const agent_lines& to, std::string_view token);

/// Returns a request in one buffer. `headers` are whole lines, each with its CRLF.
HOLDFAST_INTERNAL std::string format_request(std::string_view method, std::string_view target, std::string_view headers,
                                             std::string_view body);

/// The memory that the result of a reply may take beside its texts, if its body may have this size. An element takes 32
/// bytes or more, so a body of texts that are nearly all shorter than 13 bytes may be refused although it is not too
/// long.
constexpr std::size_t kept_max_of(std::size_t body_bytes_max) noexcept { return 2 * body_bytes_max; }

/// The parts of a reply that the client uses.
struct http_reply {
  unsigned status = 0;
  std::string body;
  bool is_consuls = false;             ///< it has a header whose name begins with X-Consul-
  std::string content_type{};          ///< Content-Type; also empty if it is application/json
  std::string location{};              ///< Location: where a redirection leads
  std::optional<std::uint64_t> index;  ///< X-Consul-Index
  bool known_leader = true;            ///< X-Consul-Knownleader
  std::chrono::milliseconds last_contact{0};
  bool filtered_by_acls = false;                              ///< X-Consul-Results-Filtered-By-ACLs
  std::chrono::milliseconds asked_wait{0};                    ///< the wait that a blocking query has sent
  std::size_t kept_max = kept_max_of(std::size_t{64} << 20);  ///< for the result, beside its texts
};

/// Parses one reply from bytes that come in any portions. Interim replies (1xx) are skipped, except 101. That is an
/// error, because the client never asks for another protocol. The parser uses no sockets: its owner reads into
/// `space()` and calls `commit`.
class reply_parser {
public:
  explicit reply_parser(std::size_t body_bytes_max);
  ~reply_parser();
  reply_parser(const reply_parser&) = delete;
  reply_parser& operator=(const reply_parser&) = delete;

  /// Discards all state, to parse a new reply.
  void restart();

  /// The buffer for the next bytes. Valid until the next call.
  boost::asio::mutable_buffer space();
  /// Parses `size` bytes that were put into `space()`. Errors: malformed_reply, reply_too_large.
  error_code commit(std::size_t size);
  /// To be called at the end of the stream. Returns error::connection_lost unless the reply is complete, or the end of
  /// the stream completes it.
  error_code finish();

  bool done() const noexcept;
  /// Returns true if another request may follow on the connection: the reply is complete, allows that, and no bytes
  /// follow it.
  bool keep_alive() const noexcept;
  /// Moves the reply out. To be called once, when `done()` is true.
  http_reply take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

}  // namespace detail
}  // namespace holdfast::consul

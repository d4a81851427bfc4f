#pragma once

#include <boost/asio/buffer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::consul::detail {

/// What the body of a request is.
enum class content { none, json, bytes };

/// A request, but for what it owes to the agent that gets it, and to the moment at which it is sent.
struct http_request {
  std::string_view method = "GET";
  std::string target{};  ///< path and query
  std::string body{};
  content type = content::none;
  bool is_write = false;        ///< it changes something in Consul: for the statistics
  bool repeatable = false;      ///< whatever came of it, it may be sent once more
  bool waits_in_outage = true;  ///< while no agent can be reached it waits for one, until its deadline
  /// What a blocking query asks Consul to wait, and how much longer its reply may take. 0: it is none.
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds slack{0};
};

/// The blocking query with another wait.
http_request with_wait(http_request request, std::chrono::milliseconds wait);

/// What all requests to one agent have in common.
struct agent_lines {
  std::string before_target{};  ///< what the path stands below, and for a forwarding proxy also the agent's address
  std::string headers{};        ///< whole lines, each with its CRLF
};

/// In one buffer, so that it leaves in one segment. `token`: none if it is empty.
std::string to_bytes(const http_request& request, const agent_lines& to, std::string_view token);

/// `headers` are whole lines, each with its CRLF.
std::string format_request(std::string_view method, std::string_view target, std::string_view headers,
                           std::string_view body);

/// What a reply says that matters here.
struct http_reply {
  unsigned status = 0;
  std::string body;
  std::optional<std::uint64_t> index;  ///< X-Consul-Index
  bool known_leader = true;            ///< X-Consul-Knownleader
  std::chrono::milliseconds last_contact{0};
  bool filtered_by_acls = false;            ///< X-Consul-Results-Filtered-By-ACLs
  std::chrono::milliseconds asked_wait{0};  ///< of a blocking query: the wait that was sent
};

/// Takes bytes in any split and makes one reply of them, the final one: interim replies (1xx) are passed over. No
/// sockets: the owner reads into `space()` and calls `commit`.
class reply_parser {
public:
  explicit reply_parser(std::size_t body_bytes_max);
  ~reply_parser();
  reply_parser(const reply_parser&) = delete;
  reply_parser& operator=(const reply_parser&) = delete;

  /// Forgets everything and expects a new reply.
  void restart();

  /// Where to put the next bytes; valid until the next call.
  boost::asio::mutable_buffer space();
  /// `size` bytes were put there. Errors: malformed_reply, reply_too_large.
  error_code commit(std::size_t size);
  /// The stream ended. error::connection_lost unless that is how this reply ends.
  error_code finish();

  bool done() const noexcept;
  /// Whether another request may follow on the connection: only when both sides agree where this reply ended.
  bool keep_alive() const noexcept;
  /// The reply; once, when done().
  http_reply take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

}  // namespace holdfast::consul::detail

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/api.hpp"

// HTTP/1.1 as bytes, on both sides of a server and a proxy. Pure: no sockets, no clock.
namespace holdfast::testing::detail {

struct http_request {
  api_request call;
  /// All that concern more than one connection: for an agent behind a proxy.
  std::vector<std::pair<std::string, std::string>> headers{};
  bool keep_alive = true;
};

struct http_reply {
  api_reply reply;
  bool keep_alive = true;
};

enum class parse_state { incomplete, complete, malformed, header_too_large, body_too_large };

/// Makes requests of a client's bytes, in whatever pieces they come. A header may have 16 KiB.
class request_reader {
public:
  explicit request_reader(std::size_t body_bytes_max);
  ~request_reader();
  request_reader(const request_reader&) = delete;
  request_reader& operator=(const request_reader&) = delete;

  void append(std::string_view bytes);
  /// Whether what waits to be parsed is enough for now: a client may send its next requests before it is answered.
  bool full() const noexcept;
  /// After anything but `incomplete` and `complete`, the connection is of no more use.
  parse_state parse();
  /// When complete; the next request begins with the bytes after it.
  http_request take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

/// Makes a reply of an agent's bytes.
class reply_reader {
public:
  /// The reply to a request of this method: one to HEAD has no body, whatever its header says.
  reply_reader(std::string_view method, std::size_t body_bytes_max);
  ~reply_reader();
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;

  void append(std::string_view bytes);
  parse_state parse();
  /// The stream has ended: `malformed`, unless that is how this reply ends.
  parse_state finish();
  http_reply take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

/// With a Content-Length, always. `has_body` is false for a reply to HEAD.
std::string format_reply(const api_reply& reply, bool keep_alive, bool has_body = true);
/// Of a reply that only says that another comes.
std::string format_interim(unsigned status);
std::string format_request(const http_request& request, std::string_view host);
/// What is answered to bytes that are no request.
api_reply refusal_of(parse_state wrong, std::size_t body_bytes_max);

/// Whether the query names an index to wait for.
bool is_blocking_query(const api_request& request);
/// The first session id (any UUID) in the target, else in the body.
std::optional<std::string> session_named(const api_request& request);

}  // namespace holdfast::testing::detail

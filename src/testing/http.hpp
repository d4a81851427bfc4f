// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/api.hpp"

// HTTP/1.1 messages for the server and the proxy, without I/O: no sockets, no clock.
namespace holdfast::testing::detail {

struct http_request {
  api_request call;
  /// The headers that a proxy passes on: all except Host, Content-Length, Expect and those of a single connection.
  std::vector<std::pair<std::string, std::string>> headers{};
  bool keep_alive = true;
};

struct http_reply {
  api_reply reply;
  bool keep_alive = true;
};

enum class parse_state { incomplete, complete, malformed, header_too_large, body_too_large };

/// Parses requests from a client's bytes, which may arrive in pieces of any size. A header may have up to 16 KiB.
class request_reader {
public:
  explicit request_reader(std::size_t body_bytes_max);
  ~request_reader();
  request_reader(const request_reader&) = delete;
  request_reader& operator=(const request_reader&) = delete;

  void append(std::string_view bytes);
  /// True if enough bytes are buffered. A client may send further requests before it is answered, so this limits them.
  bool full() const noexcept;
  /// If the result is neither `incomplete` nor `complete`, the connection must be closed.
  parse_state parse();
  /// Returns the request after `parse` returned `complete`. The next request begins with the bytes after it.
  http_request take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

/// Parses a reply from an agent's bytes.
class reply_reader {
public:
  /// Parses the reply to a request of this method. A reply to HEAD has no body, whatever its header says.
  reply_reader(std::string_view method, std::size_t body_bytes_max);
  ~reply_reader();
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;

  void append(std::string_view bytes);
  parse_state parse();
  /// Called at the end of the stream. Returns `malformed` unless the end of the stream completes the reply.
  parse_state finish();
  http_reply take();

private:
  class machine;
  std::unique_ptr<machine> machine_;
};

/// The result always has a Content-Length. `has_body` must be false for a reply to HEAD.
std::string format_reply(const api_reply& reply, bool keep_alive, bool has_body = true);
/// Formats an interim reply (1xx), after which the final reply follows.
std::string format_interim(unsigned status);
std::string format_request(const http_request& request, std::string_view host);
/// The reply to bytes that are not a valid request.
api_reply refusal_of(parse_state wrong, std::size_t body_bytes_max);

/// True if the query has an index other than 0 to wait for.
bool is_blocking_query(const api_request& request);
/// The first session id (any UUID) in the target, else in the body.
std::optional<std::string> session_named(const api_request& request);

}  // namespace holdfast::testing::detail

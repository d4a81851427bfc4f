// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/classify.hpp"

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "consul/encoding/reply.hpp"

namespace holdfast::consul::detail {
namespace {

using texts = std::initializer_list<std::string_view>;

bool begins_with_one_of(std::string_view text, texts beginnings) noexcept {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view each) { return text.starts_with(each); });
}

// Removes the prefixes before the text of the server that refused the request. A server that forwards a request to the
// leader adds the first two prefixes, once for each hop. The leader adds the others, from Consul 1.10 on.
std::string_view own_text(std::string_view text) noexcept {
  constexpr std::string_view prefixes[] = {
      "rpc error making call: ", "rpc error: ", "raft apply failed: ", "apply failed: "};
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view prefix : prefixes) {
      if (!text.starts_with(prefix)) continue;
      text.remove_prefix(prefix.size());
      stripped = true;
    }
  }
  return text;
}

// Recognizes the texts that certainly mean a refused request. Consul sends most of them with status 500.
error_code definite_refusal(std::string_view text) noexcept {
  text = own_text(text);
  if (text.starts_with("invalid session ") || text.starts_with("failed session lookup: index error")) {
    return error::invalid_session;
  }
  if (text.starts_with("Missing node registration")) return error::missing_node;
  if (text.starts_with("Invalid Session TTL")) return error::invalid_ttl;
  if (text.starts_with("invalid key name")) return error::bad_request;
  if (begins_with_one_of(text, {"Permission denied", "ACL not found"})) return error::permission_denied;
  return {};
}

// Returns the error of a refusal by Consul, or not_consul if the reply is not Consul's.
error_code if_consuls(bool is_consuls, error refusal) noexcept { return is_consuls ? refusal : error::not_consul; }

std::string_view path_of(std::string_view target) noexcept { return target.substr(0, target.find('?')); }

// Returns true if the body begins like the answer to a request of this kind. An object must have a certain member near
// its beginning.
bool has_form(request_kind kind, std::string_view body) noexcept {
  constexpr std::size_t seen = 128;
  const std::string_view beginning = body.substr(0, seen);
  const auto is_object_with = [&](texts members) {
    return body.starts_with('{') && std::any_of(members.begin(), members.end(), [&](std::string_view each) {
             return beginning.find(each) != std::string_view::npos;
           });
  };
  switch (kind) {
    case request_kind::kv_read:
    case request_kind::session_read:
    case request_kind::session_renew:
      return body.starts_with('[') || body.starts_with("null");
    case request_kind::kv_write:
    case request_kind::session_destroy:
    case request_kind::node_write:
      return body.starts_with("true") || body.starts_with("false");
    case request_kind::session_create:
      return is_object_with({"\"ID\""});
    case request_kind::node_read:
      return is_object_with({"\"Node\"", "\"Services\""}) || body.starts_with("null");
    case request_kind::transact:
      return is_object_with({"\"Results\"", "\"Errors\""});
  }
  return false;
}

bool is_read(request_kind kind) noexcept {
  return kind == request_kind::kv_read || kind == request_kind::session_read || kind == request_kind::node_read;
}

// Consul redirects a request whose path has an empty segment to the path without it.
bool cleans_path(std::string_view target, const http_reply& reply) {
  const std::string_view path = path_of(target);
  std::string clean;
  std::unique_copy(path.begin(), path.end(), std::back_inserter(clean),
                   [](char l, char r) { return l == '/' && r == l; });
  const std::string_view leads_to = path_of(reply.location);  // a proxy may have put a prefix before Consul's path
  return clean.size() != path.size() && leads_to.starts_with('/') && !leads_to.starts_with("//") &&
         leads_to.ends_with(clean);
}

error_code classify_400(std::string_view target, const http_reply& reply) noexcept {
  const std::string_view text = reply.body;
  if (text.starts_with("Client sent an HTTP request to an HTTPS server")) return error::plain_http_refused;
  if (const error_code refusal = definite_refusal(text)) return refusal;
  // If a key has a character that Consul does not accept, the reply has no text.
  if (text.empty() && path_of(target).find('%') != std::string_view::npos) return error::bad_request;
  // The last text comes from Go's HTTP library, which other servers use, too.
  return if_consuls(reply.is_consuls || begins_with_one_of(own_text(text),
                                                           {
                                                               "Missing key name",
                                                               "Missing session",
                                                               "Missing node name",
                                                               "Bad request: ",
                                                               "Invalid query parameter: ",
                                                               "Invalid wait time",
                                                               "Invalid index",
                                                               "Cannot specify ?stale",
                                                               "Conflicting flags: ",
                                                               "Request decode failed: ",
                                                               "Failed to parse body: ",
                                                               "Failed to parse session",
                                                               "400 Bad Request: ",
                                                           }),
                    error::bad_request);
}

error_code classify_404(request_kind kind, const http_reply& reply) noexcept {
  if (is_read(kind) && reply.index) return {};
  // Only Consul's own text counts: a 404 of another server must not make a live session look lost.
  if (kind == request_kind::session_renew && reply.body.starts_with("Session id ")) return error::invalid_session;
  return if_consuls(reply.is_consuls || reply.body.starts_with("Invalid URL path: not a recognized HTTP API endpoint"),
                    error::bad_request);
}

error_code classify_server_error(const http_reply& reply) noexcept {
  if (const error_code refusal = definite_refusal(reply.body)) return refusal;
  // From Consul 1.16 on, the leader may limit the rate of requests. The request was refused before it had any effect.
  if (reply.status == 503 && reply.body.find("rate limit exceeded") != std::string::npos) {
    return error::too_many_requests;
  }
  const bool is_plain = reply.content_type.empty() || reply.content_type.starts_with("text/plain");
  return reply.is_consuls || is_plain ? error::server_error : error::not_consul;
}

}  // namespace

error_code classify(request_kind kind, std::string_view target, const http_reply& reply) {
  const std::string_view text = reply.body;
  switch (reply.status) {
    case 200:
      return has_form(kind, text) ? error_code() : error::not_consul;
    case 301:
    case 307:
      return if_consuls(cleans_path(target, reply), error::bad_request);
    case 400:
      return classify_400(target, reply);
    case 403:
      return if_consuls(reply.is_consuls || definite_refusal(text) == error::permission_denied ||
                            begins_with_one_of(own_text(text), {"Endpoint is blocked by agent configuration",
                                                                "Access is restricted", "token does not exist"}),
                        error::permission_denied);
    case 404:
      return classify_404(kind, reply);
    case 405:
      return if_consuls(reply.is_consuls || (text.starts_with("method ") && text.ends_with(" not allowed")),
                        error::bad_request);
    case 409:
      return kind == request_kind::transact && has_form(kind, text) ? error_code() : error::not_consul;
    case 413:
      return if_consuls(reply.is_consuls || begins_with_one_of(text, {"Request body", "Value for key ",
                                                                      "Transaction contains too many operations"}),
                        error::too_large);
    case 429:
      return error::too_many_requests;
    case 431:
      return if_consuls(text.starts_with("431 Request Header Fields Too Large"), error::bad_request);
    default:
      return reply.status >= 500 && reply.status < 600 ? classify_server_error(reply) : error::not_consul;
  }
}

bool is_token_unknown(const http_reply& reply) noexcept {
  return reply.status >= 400 && reply.body.find("ACL not found") != std::string::npos;
}

std::string what_answered(const http_reply& reply) {
  if (reply.status == 0) return "something that is not HTTP";
  std::string text = std::to_string(reply.status);
  // The query of the address may have secrets.
  if (!reply.location.empty()) {
    text += " to " + readable(std::string_view(reply.location).substr(0, reply.location.find_first_of("?#")));
  }
  const auto type = std::string_view(reply.content_type).substr(0, reply.content_type.find(';'));
  if (!type.empty()) text += ", " + readable(type);
  return text;
}

std::string_view advice_about(const http_reply& reply) noexcept {
  if (reply.status >= 300 && reply.status < 400 && reply.location.starts_with("https://")) {
    return "if that is Consul, its address needs https://";
  }
  if (reply.body.find("plain HTTP request was sent to HTTPS port") != std::string::npos) {
    return "the port speaks TLS: the address needs https://";
  }
  if (reply.status == 401) return "a login may be needed: config::http_auth";
  return {};
}

}  // namespace holdfast::consul::detail

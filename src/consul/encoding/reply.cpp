// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/reply.hpp"

#include <algorithm>
#include <charconv>

#include "consul/encoding/json.hpp"

namespace holdfast::consul::detail {
namespace {

constexpr std::size_t readable_max = 512;

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
  if (text.starts_with("Permission denied") || text.starts_with("ACL not found")) return error::permission_denied;
  return {};
}

error_code classify_client_error(const http_reply& reply) noexcept {
  switch (reply.status) {
    case 403:
      return error::permission_denied;
    case 413:
      return error::too_large;
    case 429:
      return error::too_many_requests;
    case 400:
      if (reply.body.starts_with("Client sent an HTTP request to an HTTPS server")) return error::plain_http_refused;
      if (const error_code refusal = definite_refusal(reply.body)) return refusal;
      break;
    default:
      break;
  }
  return error::bad_request;
}

query_meta meta_of(const http_reply& reply) {
  return {reply.index.value_or(0), reply.known_leader, reply.last_contact, reply.filtered_by_acls, reply.asked_wait};
}

// Returns true if Consul says that the object does not exist: a 404 with an index. A 404 without an index may come from
// another server, and proves nothing.
bool says_absent(const http_reply& reply) noexcept { return reply.status == 404 && reply.index.has_value(); }

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

template <class Value, class Parse>
std::optional<error_code> decode_read(const http_reply& reply, answer<Value>& out, Parse parse) {
  out.meta = meta_of(reply);
  if (says_absent(reply)) return error_code();
  if (const error_code ec = classify(reply)) return ec;
  return parse(reply.body, out.value);
}

// Takes the only element of a list, for a request about one object that Consul answers with a list.
template <class T>
error_code only_element(std::vector<T>& list, std::optional<T>& out) {
  if (list.size() != 1) return error::malformed_reply;
  out = std::move(list.front());
  return {};
}

}  // namespace

error_code classify(const http_reply& reply) {
  if (reply.status == 200) return {};
  if (reply.status >= 300 && reply.status < 400) return error::bad_request;  // a key that is not a clean path
  if (reply.status >= 400 && reply.status < 500) return classify_client_error(reply);
  if (reply.status >= 500 && reply.status < 600) {
    if (const error_code refusal = definite_refusal(reply.body)) return refusal;
    // From Consul 1.16 on, the leader may limit the rate of requests. The request was refused before it had any effect.
    if (reply.status == 503 && reply.body.find("rate limit exceeded") != std::string::npos) {
      return error::too_many_requests;
    }
    return error::server_error;
  }
  return error::malformed_reply;
}

std::string readable(std::string_view server_text) {
  std::string out(trimmed(server_text).substr(0, readable_max));
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return out;
}

std::optional<error_code> decode_list(entries_reader& from, const http_reply& reply, entries_answer& out) {
  return decode_read(reply, out, [&](const std::string& body, std::vector<kv_entry>& value) {
    return from.read(body, value, reply.kept_max);
  });
}

std::optional<error_code> decode_keys(entries_reader& from, const http_reply& reply, keys_answer& out) {
  return decode_read(reply, out, [&](const std::string& body, std::vector<std::string>& value) {
    return from.read(body, value, reply.kept_max);
  });
}

std::optional<error_code> decode_get(entries_reader& from, std::vector<kv_entry>& list, const http_reply& reply,
                                     entry_answer& out) {
  return decode_read(reply, out, [&](const std::string& body, std::optional<kv_entry>& value) {
    std::optional<error_code> ended = from.read(body, list, reply.kept_max);
    if (ended && !ended->failed()) ended = only_element(list, value);
    return ended;
  });
}

error_code decode_write(const http_reply& reply, bool& out) {
  if (const error_code ec = classify(reply)) return ec;
  const std::string_view body = trimmed(reply.body);
  if (body != "true" && body != "false") return error::malformed_reply;
  out = body == "true";
  return {};
}

error_code decode_confirmation(const http_reply& reply) {
  bool done = false;
  if (const error_code ec = decode_write(reply, done)) return ec;
  return done ? error_code() : error_code(error::malformed_reply);
}

error_code decode_session_create(const http_reply& reply, std::string& out) {
  if (const error_code ec = classify(reply)) return ec;
  return parse_session_id(reply.body, out);
}

error_code decode_session_renew(const http_reply& reply) {
  // Only Consul's own text counts, because a 404 from another server must not make a live session look lost.
  if (reply.status == 404 && reply.body.starts_with("Session id ")) return error::invalid_session;
  if (const error_code ec = classify(reply)) return ec;
  std::vector<session_info> sessions;
  if (const error_code ec = parse_sessions(reply.body, sessions)) return ec;
  return sessions.size() == 1 ? error_code() : error_code(error::malformed_reply);
}

error_code decode_session(const http_reply& reply, session_answer& out) {
  out.meta = meta_of(reply);
  if (const error_code ec = classify(reply)) return ec;
  std::vector<session_info> list;
  if (const error_code ec = parse_sessions(reply.body, list)) return ec;
  return list.empty() ? error_code() : only_element(list, out.value);
}

error_code decode_node(const http_reply& reply, node_answer& out) { return *decode_read(reply, out, parse_node); }

std::optional<error_code> decode_txn(entries_reader& from, const http_reply& reply, std::size_t operations,
                                     txn_reply& out) {
  if (reply.status != 409) {
    if (const error_code ec = classify(reply)) return ec;
  }
  const std::optional<error_code> ended = from.read(reply.body, out, reply.kept_max);
  if (!ended || ended->failed()) return ended;
  const bool names_others = std::any_of(out.errors.begin(), out.errors.end(),
                                        [&](const txn_error& each) { return each.operation >= operations; });
  out.applied = out.errors.empty();
  // The status and the body must agree on whether the transaction was applied.
  if (names_others || out.applied != (reply.status == 200)) return error_code(error::malformed_reply);
  return ended;
}

std::optional<std::size_t> operations_taken(const http_reply& reply) {
  constexpr std::string_view beginning = "Transaction contains too many operations (";
  constexpr std::size_t least = 64;  // every Consul accepts this many, so a smaller number is not believed
  const std::string_view text = reply.body;
  if (reply.status != 413 || !text.starts_with(beginning)) return std::nullopt;
  const char* const end = text.data() + text.size();
  constexpr std::string_view than = " > ";
  std::size_t sent = 0, taken = 0;
  const auto first = std::from_chars(text.data() + beginning.size(), end, sent);
  if (first.ec != std::errc() || !std::string_view(first.ptr, end).starts_with(than)) return std::nullopt;
  const auto second = std::from_chars(first.ptr + than.size(), end, taken);
  const bool is_plausible = second.ec == std::errc() && taken >= least && taken < sent;
  return is_plausible ? std::optional(taken) : std::nullopt;
}

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/reply.hpp"

#include <algorithm>
#include <charconv>

#include "consul/encoding/json.hpp"

namespace holdfast::consul::detail {
namespace {

constexpr std::size_t readable_max = 512;

query_meta meta_of(const http_reply& reply) {
  return {reply.index.value_or(0), reply.known_leader, reply.last_contact, reply.filtered_by_acls, reply.asked_wait};
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

template <class Value, class Parse>
std::optional<error_code> decode_read(const http_reply& reply, answer<Value>& out, Parse parse) {
  out.meta = meta_of(reply);
  if (reply.status == 404) return error_code();  // it does not exist
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
  return parse_session_id(reply.body, out);
}

error_code decode_session_renew(const http_reply& reply) {
  std::vector<session_info> sessions;
  if (const error_code ec = parse_sessions(reply.body, sessions)) return ec;
  return sessions.size() == 1 ? error_code() : error_code(error::malformed_reply);
}

error_code decode_session(const http_reply& reply, session_answer& out) {
  return *decode_read(reply, out, [](const std::string& body, std::optional<session_info>& value) {
    std::vector<session_info> list;
    const error_code ec = parse_sessions(body, list);
    return std::optional(ec || list.empty() ? ec : only_element(list, value));
  });
}

error_code decode_node(const http_reply& reply, node_answer& out) { return *decode_read(reply, out, parse_node); }

std::optional<error_code> decode_txn(entries_reader& from, const http_reply& reply, std::size_t operations,
                                     txn_reply& out) {
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

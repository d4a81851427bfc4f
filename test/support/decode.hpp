// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "consul/encoding/entries.hpp"
#include "consul/encoding/reply.hpp"

// Reads whole texts. Each is read in one part, and again in small parts, which must have the same result.
namespace holdfast::consul::detail {

inline bool is_same(const txn_reply& a, const txn_reply& b) {
  return a.applied == b.applied && a.results == b.results && a.errors == b.errors;
}
template <class Value>
bool is_same(const answer<Value>& a, const answer<Value>& b) {
  return a.meta == b.meta && a.value == b.value;
}
template <class Element>
bool is_same(const std::vector<Element>& a, const std::vector<Element>& b) {
  return a == b;
}

template <class Out, class Read>
error_code read_whole(Out& out, Read read) {
  const auto in_parts_of = [&](std::size_t size, Out& its) {
    entries_reader from(size);
    std::optional<error_code> ended;
    while (!ended) ended = read(from, its);
    return *ended;
  };
  const error_code ended = in_parts_of(SIZE_MAX, out);
  for (const std::size_t size : {1, 7}) {
    Out again;
    if (in_parts_of(size, again) != ended || (!ended && !is_same(again, out))) throw std::logic_error("parts differ");
  }
  return ended;
}

inline error_code parse_entries(std::string_view body, std::vector<kv_entry>& out, std::size_t kept_max = SIZE_MAX) {
  return read_whole(out, [&](entries_reader& from, auto& its) { return from.read(body, its, kept_max); });
}
inline error_code parse_keys(std::string_view body, std::vector<std::string>& out, std::size_t kept_max = SIZE_MAX) {
  return read_whole(out, [&](entries_reader& from, auto& its) { return from.read(body, its, kept_max); });
}

inline error_code decode_list(const http_reply& reply, entries_answer& out) {
  return read_whole(out, [&](entries_reader& from, auto& its) { return decode_list(from, reply, its); });
}
inline error_code decode_keys(const http_reply& reply, keys_answer& out) {
  return read_whole(out, [&](entries_reader& from, auto& its) { return decode_keys(from, reply, its); });
}
inline error_code decode_get(const http_reply& reply, entry_answer& out) {
  std::vector<kv_entry> list;
  return read_whole(out, [&](entries_reader& from, auto& its) { return decode_get(from, list, reply, its); });
}
inline error_code decode_txn(const http_reply& reply, std::size_t operations, txn_reply& out) {
  return read_whole(out, [&](entries_reader& from, auto& its) { return decode_txn(from, reply, operations, its); });
}
inline error_code parse_txn(std::string_view body, std::size_t operations, txn_reply& out) {
  http_reply reply;
  reply.body = body;
  error_code ended;
  for (const unsigned status : {200, 409}) {  // one of them agrees with the body
    reply.status = status;
    ended = decode_txn(reply, operations, out);
    if (!ended) break;
  }
  return ended;
}

}  // namespace holdfast::consul::detail

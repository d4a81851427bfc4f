// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client's side of a connection: bytes in any pieces, the reply that they form, and everything for which the reply
// may be taken.
//
// The input begins with two bytes. The lowest bit of the first one selects the body limit, and its next bit says if the
// stream ends. The second one selects the sizes of the pieces. The bytes of the stream follow.

#include "consul/encoding/reply.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/json.hpp>
#include <cstring>
#include <optional>
#include <string>

#include "consul/encoding/base64.hpp"
#include "consul/encoding/classify.hpp"
#include "consul/encoding/json.hpp"
#include "fuzz.hpp"
#include "support/decode.hpp"

using namespace holdfast;
using namespace holdfast::consul;
using namespace holdfast::consul::detail;
using holdfast::fuzz::require;

namespace {

// The result of parsing a stream of bytes.
struct outcome {
  error_code ec;
  std::optional<http_reply> reply;
  bool keep_alive = false;
};

outcome receive(reply_parser& parser, std::string_view stream, bool ends, fuzz::pieces sizes) {
  outcome result;
  while (!stream.empty() && !result.ec && !parser.done()) {
    const boost::asio::mutable_buffer space = parser.space();
    require(space.size() > 0, "there is always space for the next bytes");
    const std::size_t piece = sizes.next(std::min(stream.size(), space.size()));
    std::memcpy(space.data(), stream.data(), piece);
    stream.remove_prefix(piece);
    result.ec = parser.commit(piece);
  }
  if (!result.ec && ends && !parser.done()) {
    result.ec = parser.finish();
    require(result.ec || parser.done(), "a stream's end makes an end");
  }
  if (result.ec || !parser.done()) return result;
  result.keep_alive = parser.keep_alive() && stream.empty();
  result.reply = parser.take();
  return result;
}

void require_same(const outcome& a, const outcome& b, bool ends) {
  require(a.reply.has_value() == b.reply.has_value(), "pieces do not decide whether there is a reply");
  if (!a.reply) {
    // Beast looks at a first line when it comes, or only with the whole header, which for bad ones may never come.
    require(a.ec.failed() == b.ec.failed() || !ends, "pieces do not decide whether a stream is refused");
    return;
  }
  require(a.keep_alive == b.keep_alive, "pieces do not decide whether the connection lasts");
  require(a.reply->status == b.reply->status && a.reply->body == b.reply->body && a.reply->index == b.reply->index &&
              a.reply->known_leader == b.reply->known_leader && a.reply->last_contact == b.reply->last_contact &&
              a.reply->filtered_by_acls == b.reply->filtered_by_acls,
          "pieces do not decide what a reply says");
}

// The format of Consul, written by other code than the library's.
std::string write_entries(const std::vector<kv_entry>& entries) {
  boost::json::array list;
  for (const kv_entry& entry : entries) {
    std::string value;
    append_base64(value, entry.value);
    list.push_back({{"Key", entry.key},
                    {"Value", value},
                    {"Flags", entry.flags},
                    {"Session", entry.session},
                    {"CreateIndex", entry.create_index},
                    {"ModifyIndex", entry.modify_index},
                    {"LockIndex", entry.lock_index}});
  }
  return boost::json::serialize(list);
}

// The same, read from a document tree, which the library does not use.
std::optional<std::vector<kv_entry>> read_from_tree(const boost::json::value& document) {
  const auto number = [](const boost::json::object& entry, const char* name) {
    return entry.at(name).to_number<std::uint64_t>();
  };
  const auto text = [](const boost::json::object& entry, const char* name) -> std::string_view {
    const auto* const found = entry.if_contains(name);
    if (!found || found->is_null()) return {};
    return {found->as_string().data(), found->as_string().size()};
  };
  std::vector<kv_entry> out;
  try {
    for (const auto& element : document.as_array()) {
      const boost::json::object& from = element.as_object();
      kv_entry& entry = out.emplace_back();
      entry.key = std::string_view(from.at("Key").as_string());
      if (!decode_base64(text(from, "Value"), entry.value)) return {};
      entry.session = text(from, "Session");
      entry.flags = number(from, "Flags");
      entry.create_index = number(from, "CreateIndex");
      entry.modify_index = number(from, "ModifyIndex");
      entry.lock_index = number(from, "LockIndex");
    }
  } catch (const std::exception&) {
    return {};
  }
  return out;
}

void check_against_tree(const std::string& body) {
  boost::json::parse_options options;
  options.max_depth = depth_max;
  boost::system::error_code ec;
  const auto document = boost::json::parse(body, ec, {}, options);
  std::vector<kv_entry> read;
  const bool good = !parse_entries(body, read);
  if (ec) return require(!good, "what is no JSON is no listing");
  const auto expected = read_from_tree(document);
  if (good) require(expected == read, "a tree of the document says the same");
  // A tree has each member once. If a member comes twice and one of them is wrong, the tree may lack the wrong one.
  if (expected) {
    require(!parse_entries(boost::json::serialize(document), read) && read == *expected, "and is understood");
  }
}

bool is_ours(const error_code& ec) { return !ec || ec.category() == error_category(); }

error_code meaning(request_kind kind, const http_reply& reply) { return classify(kind, "/v1/kv/a", reply); }

// Decodes the reply to a request of this kind, unless it stands for an error.
template <class Decode>
error_code understand(request_kind kind, const http_reply& reply, Decode decode) {
  const error_code ec = meaning(kind, reply);
  return ec ? ec : decode();
}

void check_kv(const http_reply& reply) {
  check_against_tree(reply.body);
  const bool absent = reply.status == 404 && reply.index;
  entries_answer list;
  const error_code ec_list = understand(request_kind::kv_read, reply, [&] { return decode_list(reply, list); });
  entry_answer one;
  const error_code ec_one = understand(request_kind::kv_read, reply, [&] { return decode_get(reply, one); });
  keys_answer keys;
  const error_code ec_keys = understand(request_kind::kv_read, reply, [&] { return decode_keys(reply, keys); });
  for (const error_code& ec : {ec_list, ec_one, ec_keys}) {
    require(is_ours(ec), "errors are ours");
    require(ec || reply.status == 200 || absent, "only a 200 and Consul's own 404 answer a read");
  }
  if (absent) {
    require(!ec_list && !ec_one && !ec_keys, "nothing is there: that is an answer");
    require(list.value.empty() && !one.value && keys.value.empty(), "and it is empty");
    return;
  }
  if (!ec_list) {
    require(list.meta.index == reply.index.value_or(0), "an answer has the reply's index");
    require(!ec_one == (list.value.size() == 1), "one entry is a list of one");
    if (!ec_one) require(one.value == list.value.front(), "and the same one");
    std::vector<kv_entry> again;
    require(!parse_entries(write_entries(list.value), again) && again == list.value, "entries survive being written");
    require(ec_keys || list.value.empty(), "entries are no keys");
  } else {
    require(ec_one.failed(), "what is no list is no list of one");
  }
}

void check_sessions(const http_reply& reply) {
  session_answer found;
  const error_code ec = understand(request_kind::session_read, reply, [&] { return decode_session(reply, found); });
  const bool absent = reply.status == 404 && reply.index;
  require(is_ours(ec) && (ec || reply.status == 200 || absent), "only a 200 tells of a session");
  const error_code renewed =
      understand(request_kind::session_renew, reply, [&] { return decode_session_renew(reply); });
  require(is_ours(renewed), "errors are ours");
  require(!renewed == (!ec && found.value), "a renewal is answered with the session");
  if (renewed == error::invalid_session)
    require(reply.status >= 400 && !reply.body.empty(), "a session is gone only if Consul says so");
  if (!ec && found.value) {
    require(found.value->ttl.count() >= 0 && found.value->lock_delay.count() >= 0, "times are not negative");
  }
  std::string id;
  const auto decode_created = [&] { return decode_session_create(reply, id); };
  if (const error_code created = understand(request_kind::session_create, reply, decode_created); !created) {
    require(reply.status == 200 && !id.empty(), "a new session has an id");
  } else {
    require(is_ours(created), "errors are ours");
  }
}

void check_writes(const http_reply& reply) {
  bool done = false;
  const error_code ec = understand(request_kind::kv_write, reply, [&] { return decode_write(reply, done); });
  require(is_ours(ec) && (ec || reply.status == 200), "only a 200 tells of a write");
  const error_code confirmed =
      understand(request_kind::session_destroy, reply, [&] { return decode_confirmation(reply); });
  require(!confirmed == (!ec && done), "a session that was destroyed was a write that was done");
  txn_reply txn;
  if (!understand(request_kind::transact, reply, [&] { return decode_txn(reply, txn_operations_max, txn); })) {
    require(txn.applied ? reply.status == 200 : reply.status == 409, "a transaction says the same thing twice");
    require(txn.applied == txn.errors.empty(), "a refused transaction says why");
  }
}

void check_meaning(const http_reply& reply) {
  for (const request_kind kind : request_kinds) {
    const error_code ec = meaning(kind, reply);
    const bool is_answer = reply.status == 200 || reply.status == 404 || reply.status == 409;
    require(is_ours(ec) && (ec || is_answer), "all other statuses are errors, and ours");
  }
  for (const std::string& line : {readable(reply.body), what_answered(reply)}) {
    require(line.size() <= 1100, "a line for a log is short");
    require(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
            "a line for a log is one line");
  }
  check_kv(reply);
  check_sessions(reply);
  check_writes(reply);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const std::uint8_t how = in.byte();
  const std::uint8_t sizes = in.byte();
  const std::string_view stream = in.rest();
  const std::size_t body_bytes_max = how & 1 ? 64 : 64 * 1024;
  const bool ends = how & 2;

  reply_parser parser(body_bytes_max);
  const outcome first = receive(parser, stream, ends, fuzz::pieces(sizes));
  require(is_ours(first.ec), "errors are ours");
  if (first.reply) require(first.reply->body.size() <= body_bytes_max, "a body keeps its limit");
  parser.restart();
  require_same(receive(parser, stream, ends, fuzz::pieces(0)), first, ends);
  reply_parser fresh(body_bytes_max);
  require_same(receive(fresh, stream, ends, fuzz::pieces(1)), first, ends);

  if (first.reply) require(first.reply->status >= 200, "an interim reply is none");
  const std::string after_others =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX-Consul-Index: 9\r\n\r\n" + std::string(stream);
  reply_parser third(body_bytes_max);
  require_same(receive(third, after_others, ends, fuzz::pieces(sizes)), first, ends);

  if (first.reply) check_meaning(*first.reply);
  return 0;
}

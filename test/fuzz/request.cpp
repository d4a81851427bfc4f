// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The model server's side of a connection: bytes in any pieces, the requests that they form, and a small store that
// executes them.
//
// The input has a byte for the sizes of the pieces, a byte for the seconds that pass before each request, and the bytes
// of the stream.

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "consul/encoding/json.hpp"
#include "consul/encoding/reply.hpp"
#include "fuzz.hpp"
#include "support/decode.hpp"
#include "testing/api.hpp"
#include "testing/http.hpp"

using namespace holdfast;
using namespace holdfast::testing;
using namespace holdfast::testing::detail;
using holdfast::consul::kv_entry;
using holdfast::consul::txn_operation;
using holdfast::fuzz::require;

namespace {

constexpr const char* session_ids[] = {"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"};
constexpr std::size_t body_bytes_max = 2048;

const std::string* header(const api_reply& reply, std::string_view name) {
  const auto at = std::find_if(reply.headers.begin(), reply.headers.end(),
                               [name](const auto& each) { return std::string_view(each.first) == name; });
  return at == reply.headers.end() ? nullptr : &at->second;
}

class world {
public:
  world() : model_({.value_bytes_max = 256, .txn_bytes_max = 1024}), api_(model_, 1) {
    consul::session_info session;
    require(!model_.register_node("h", "x", now_), "the model takes a node");
    for (const char* const id : session_ids) {
      session.id = id;
      session.node = id == session_ids[1] ? "h" : "";
      session.ttl += std::chrono::seconds(10);
      session.behavior = consul::session_behavior::remove;
      require(!model_.create_session(session, now_), "the model takes a session");
    }
    model_.write(txn_operation::set("a/b", "one"), now_);
    model_.write(txn_operation::lock("a/c", "two", session_ids[0], 7), now_);
  }

  api_reply handle(const api_request& request, std::chrono::seconds passed) {
    now_ += passed;
    model_.advance(now_);
    check_store();
    api_answer answer = api_.handle(request, now_);
    check_store();
    if (answer.waits_for) {
      require(answer.wait > store::duration(0), "a blocking query waits for some time");
      watches_.insert(model_.watch(*answer.waits_for));
    }
    for (const store::watch_id fired : model_.take_fired())
      require(watches_.erase(fired) == 1, "a watch is set before it fires, and fires once");
    require(model_.watches() == watches_.size(), "no watch gets lost");
    check_reply(request, answer.reply);
    return std::move(answer.reply);
  }

private:
  void check_store() {
    const std::uint64_t raft_index = model_.raft_index();
    const std::uint64_t kv_index = model_.index_of({subject::kind::prefix, ""});
    const std::uint64_t session_index = model_.index_of({subject::kind::sessions, ""});
    require(raft_index >= raft_index_, "the index of all never goes back");
    require(kv_index >= kv_index_ && kv_index <= raft_index, "nor that of all keys");
    require(session_index >= session_index_ && session_index <= raft_index, "nor that of the sessions");
    raft_index_ = raft_index;
    kv_index_ = kv_index;
    session_index_ = session_index;
    const auto nodes = model_.nodes();
    require(nodes.meta.index >= node_index_ && nodes.meta.index <= raft_index, "nor that of the nodes");
    node_index_ = nodes.meta.index;
    for (const node_info& node : nodes.value)
      require(node.create_index <= node.modify_index && node.modify_index <= node_index_,
              "a node's indexes are in order");
    for (const kv_entry& entry : model_.list("").value) {
      require(entry.create_index <= entry.modify_index && entry.modify_index <= kv_index,
              "a key's indexes are in order");
      require(entry.session.empty() || model_.session(entry.session).value, "who locks a key is there");
      require(!entry.key.empty() && model_.get(entry.key).value == entry, "a key that is listed can be read");
    }
    std::size_t of_nodes = 0;
    for (const node_info& node : nodes.value) of_nodes += model_.sessions_of(node.name).value.size();
    require(of_nodes == model_.sessions().value.size(), "each session is one of a node's that is there");
    for (const auto& session : model_.sessions().value)
      require(session.create_index <= session_index, "a session's index is in order");
  }

  static void check_reply(const api_request& request, const api_reply& reply) {
    require(reply.status >= 100 && reply.status <= 599, "a status is one");
    for (const auto& [name, value] : reply.headers)
      require((name + value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos, "a header is one line");
    if (const std::string* const index = header(reply, "X-Consul-Index")) {
      std::uint64_t number = 0;
      const auto [end, ec] = std::from_chars(index->data(), index->data() + index->size(), number);
      require(ec == std::errc() && end == index->data() + index->size() && number > 0, "an index is a number, not 0");
    }
    const std::string* const type = header(reply, "Content-Type");
    if (!type || *type != "application/json") return;
    error_code ec;
    boost::json::parse(reply.body, ec);
    require(!ec, "what says that it is JSON is JSON");
    if (reply.status == 200 || reply.status == 409) check_understood(request, reply);
  }

  // The library understands what the model answers.
  static void check_understood(const api_request& request, const api_reply& reply) {
    const std::string_view path = request.target;
    if (path.starts_with("/v1/kv/") && request.method == "GET") {
      std::vector<kv_entry> entries;
      std::vector<std::string> keys;
      require(!consul::detail::parse_entries(reply.body, entries) || !consul::detail::parse_keys(reply.body, keys),
              "a listing is understood");
    } else if (path.starts_with("/v1/session/") && request.method == "GET") {
      std::vector<consul::session_info> sessions;
      require(!consul::detail::parse_sessions(reply.body, sessions), "sessions are understood");
    } else if (path == "/v1/txn") {
      consul::detail::http_reply read;
      read.status = reply.status;
      read.body = reply.body;
      consul::txn_reply came_to;
      require(!consul::detail::decode_txn(read, consul::txn_operations_max, came_to), "a transaction is understood");
    }
  }

  store model_;
  api api_;
  store::time_point now_{};
  std::uint64_t raft_index_ = 0;
  std::uint64_t kv_index_ = 0;
  std::uint64_t session_index_ = 0;
  std::uint64_t node_index_ = 0;
  std::set<store::watch_id> watches_;
};

// The client reads the very bytes that the server writes.
void check_delivery(const api_reply& reply, bool keep_alive) {
  const std::string bytes = format_reply(reply, keep_alive);
  consul::detail::reply_parser parser(1024 * 1024);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const boost::asio::mutable_buffer space = parser.space();
    const std::size_t piece = std::min(space.size(), bytes.size() - sent);
    std::memcpy(space.data(), bytes.data() + sent, piece);
    sent += piece;
    require(!parser.commit(piece), "the client takes what the server sends");
  }
  require(parser.done() && parser.keep_alive() == keep_alive, "to its end, and no further");
  const consul::detail::http_reply read = parser.take();
  require(read.status == reply.status && read.body == reply.body, "and reads what was meant");
  const std::string* const index = header(reply, "X-Consul-Index");
  require(index ? read.index && std::to_string(*read.index) == *index : !read.index, "also the index");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  fuzz::pieces sizes(in.byte());
  const std::chrono::seconds passed(in.byte());
  world consul;
  request_reader reader(body_bytes_max);
  while (!in.empty()) {
    const std::string_view piece = in.text(sizes.next(size));
    reader.append(piece);
    parse_state state = parse_state::complete;
    while (state == parse_state::complete) {
      state = reader.parse();
      if (state == parse_state::complete) {
        const http_request request = reader.take();
        require(request.call.body.size() <= body_bytes_max, "a body keeps its limit");
        check_delivery(consul.handle(request.call, passed), request.keep_alive);
        if (!request.keep_alive) return 0;
      } else if (state != parse_state::incomplete) {
        check_delivery(refusal_of(state, body_bytes_max), false);
        return 0;
      }
    }
  }
  return 0;
}

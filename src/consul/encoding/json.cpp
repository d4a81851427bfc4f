// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/json.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "consul/encoding/base64.hpp"
#include "consul/encoding/duration.hpp"

namespace holdfast::consul::detail {
namespace {

namespace json = boost::json;

error_code parse(std::string_view body, json::value& out) {
  if (body.size() > tree_text_max) return error::reply_too_large;
  json::parse_options options;
  options.max_depth = depth_max;
  error_code ec;
  out = json::parse(json::string_view(body.data(), body.size()), ec, out.storage(), options);
  return ec ? error_code(error::malformed_reply) : error_code();
}

// A document with its memory. Most replies fit into the buffer, and all memory is freed at once.
class document {
public:
  explicit document(std::string_view body) : root_(&memory_), ec_(parse(body, root_)) {}

  const error_code& error() const noexcept { return ec_; }
  const json::value& root() const noexcept { return root_; }

private:
  unsigned char buffer_[4096];
  json::monotonic_resource memory_{buffer_};
  json::value root_;
  error_code ec_;
};

// Each of the two functions `read` reads one required field. It returns false if the field is missing or of another
// type, or if a number is not an unsigned integer.
bool read(const json::object& from, json::string_view name, std::uint64_t& out) noexcept {
  const json::value* const field = from.if_contains(name);
  if (field == nullptr) return false;
  if (const auto* u = field->if_uint64()) {
    out = *u;
    return true;
  }
  // Boost.JSON stores a number as int64 if it fits.
  const auto* i = field->if_int64();
  if (i == nullptr || *i < 0) return false;
  out = static_cast<std::uint64_t>(*i);
  return true;
}

bool read(const json::object& from, json::string_view name, std::string& out) {
  const json::string* const text = [&]() -> const json::string* {
    const json::value* const field = from.if_contains(name);
    return field == nullptr ? nullptr : field->if_string();
  }();
  if (text == nullptr) return false;
  out.assign(text->data(), text->size());
  return true;
}

bool is_absent(const json::object& from, json::string_view name) noexcept {
  const json::value* const field = from.if_contains(name);
  return field == nullptr || field->is_null();
}

bool read_optional(const json::object& from, json::string_view name, std::string& out) {
  return is_absent(from, name) || read(from, name, out);
}

// Applies `convert(element, target)` to each element of an array.
template <class T, class Convert>
bool read_array(const json::value& from, std::vector<T>& out, Convert convert) {
  const json::array* const elements = from.if_array();
  if (elements == nullptr) return false;
  out.clear();
  // Beyond `reserve_max` the list grows as elements are checked, so that the reply's size alone does not decide how
  // much memory is taken.
  out.reserve(std::min<std::size_t>(elements->size(), reserve_max));
  for (const json::value& element : *elements) {
    if (!convert(element, out.emplace_back())) return false;
  }
  return true;
}

// Does the same for a field that may be missing, or that Consul writes as null if the list is empty.
template <class T, class Convert>
bool read_optional_array(const json::object& from, json::string_view name, std::vector<T>& out, Convert convert) {
  out.clear();
  return is_absent(from, name) || read_array(*from.if_contains(name), out, convert);
}

bool convert_string(const json::value& from, std::string& out) {
  const json::string* const text = from.if_string();
  if (text == nullptr) return false;
  out.assign(text->data(), text->size());
  return true;
}

bool convert_session(const json::value& from, session_info& out) {
  const json::object* const session = from.if_object();
  if (session == nullptr) return false;

  std::string behavior;
  std::string ttl;
  std::uint64_t lock_delay = 0;
  if (!read(*session, "ID", out.id) || !read(*session, "CreateIndex", out.create_index) ||
      !read(*session, "ModifyIndex", out.modify_index) || !read_optional(*session, "Name", out.name) ||
      !read_optional(*session, "Node", out.node) || !read_optional(*session, "TTL", ttl) ||
      !read_optional(*session, "Behavior", behavior) || !read(*session, "LockDelay", lock_delay) ||
      !read_optional_array(*session, "NodeChecks", out.node_checks, convert_string)) {
    return false;
  }
  if (behavior == "delete") {
    out.behavior = session_behavior::remove;
  } else if (behavior == "release" || behavior.empty()) {
    out.behavior = session_behavior::release;
  } else {
    return false;
  }
  if (lock_delay > static_cast<std::uint64_t>(std::chrono::nanoseconds::max().count())) return false;
  out.lock_delay = std::chrono::nanoseconds(static_cast<std::int64_t>(lock_delay));
  return parse_go_duration(ttl, out.ttl);
}

void append_quoted(std::string& out, std::string_view text) {
  const auto is_plain = [](unsigned char c) { return c >= 0x20 && c != '"' && c != '\\'; };
  if (!std::all_of(text.begin(), text.end(), is_plain)) {
    out += json::serialize(json::string_view(text.data(), text.size()));
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(digits, end);
}

// Estimates the size of the operation's JSON.
std::size_t size_of(const txn_operation& operation) noexcept {
  constexpr std::size_t names_and_numbers = 128;
  return names_and_numbers + operation.key.size() + operation.value.size() / 3 * 4 + operation.session.size();
}

error_code malformed_unless(bool ok) { return ok ? error_code() : error_code(error::malformed_reply); }

}  // namespace

error_code parse_session_id(std::string_view body, std::string& out) {
  const document reply(body);
  if (reply.error()) return reply.error();
  const json::object* const created = reply.root().if_object();
  return malformed_unless(created != nullptr && read(*created, "ID", out) && !out.empty());
}

error_code parse_sessions(std::string_view body, std::vector<session_info>& out) {
  const document reply(body);
  if (reply.error()) return reply.error();
  return malformed_unless(read_array(reply.root(), out, convert_session));
}

error_code parse_node(std::string_view body, std::optional<catalog_node>& out) {
  out.reset();
  const document reply(body);
  if (reply.error() || reply.root().is_null()) return reply.error();
  const json::object* const found = reply.root().if_object();
  const json::value* const node = found != nullptr ? found->if_contains("Node") : nullptr;
  const json::object* const fields = node != nullptr ? node->if_object() : nullptr;
  catalog_node its;
  const bool is_node = fields != nullptr && read(*fields, "Node", its.name) && !its.name.empty() &&
                       read_optional(*fields, "Address", its.address) &&
                       read(*fields, "CreateIndex", its.create_index) && its.create_index != 0 &&
                       read(*fields, "ModifyIndex", its.modify_index);
  if (is_node) out = std::move(its);
  return malformed_unless(is_node);
}

txn_refusal refusal_of(std::string_view text) noexcept {
  // The beginning and the end of each message that is recognized. Between them there may be a key, which may be any
  // text.
  struct sentence {
    std::string_view begin;
    std::string_view end;
    txn_refusal meaning;
  };
  static constexpr sentence sentences[] = {
      {"failed to set key ", ", index is stale", txn_refusal::conflict},
      {"failed to delete key ", ", index is stale", txn_refusal::conflict},
      {"failed index check for key ", "", txn_refusal::conflict},
      {"failed session check for key ", "", txn_refusal::conflict},
      {"failed to unlock key ", ", lock isn't held, or is held by another session", txn_refusal::conflict},
      {"key ", " exists", txn_refusal::conflict},
      {"failed to lock key ", ", lock is already held", txn_refusal::lock_held},
      {"failed to lock key ", " due to lock delay", txn_refusal::lock_delay},
      {"invalid session ", "", txn_refusal::invalid_session},
      {"failed session lookup: index error", "", txn_refusal::invalid_session},
      {"key ", " doesn't exist", txn_refusal::missing_key},
      {"failed to check index, key ", " doesn't exist", txn_refusal::missing_key},
      {"failed to check session, key ", " doesn't exist", txn_refusal::missing_key},
      {"Permission denied", "", txn_refusal::permission_denied},
  };
  for (const sentence& s : sentences) {
    if (text.starts_with(s.begin) && text.ends_with(s.end)) return s.meaning;
  }
  return txn_refusal::other;
}

std::string write_txn(const std::vector<txn_operation>& operations, std::string_view consul_namespace,
                      std::string_view partition) {
  std::string where;
  if (!consul_namespace.empty()) append_quoted(where += R"(,"Namespace":)", consul_namespace);
  if (!partition.empty()) append_quoted(where += R"(,"Partition":)", partition);
  std::size_t size = 2;
  for (const txn_operation& operation : operations) size += size_of(operation) + where.size();
  std::string body;
  body.reserve(size);
  body += '[';
  for (const txn_operation& operation : operations) {
    if (body.size() > 1) body += ',';
    body += R"({"KV":{"Verb":")";
    body += to_string(operation.verb);
    body += R"(","Key":)";
    append_quoted(body, operation.key);
    if (!operation.value.empty()) {
      body += R"(,"Value":")";
      append_base64(body, operation.value);
      body += '"';
    }
    if (operation.flags != 0) append_number(body += R"(,"Flags":)", operation.flags);
    if (operation.index != 0) append_number(body += R"(,"Index":)", operation.index);
    if (!operation.session.empty()) {
      body += R"(,"Session":)";
      append_quoted(body, operation.session);
    }
    body += where;
    body += "}}";
  }
  body += ']';
  return body;
}

std::string write_session(const session_options& options) {
  std::string body = R"({"LockDelay":")" + to_go_duration(options.lock_delay) + '"';
  body += options.behavior == session_behavior::remove ? R"(,"Behavior":"delete")" : R"(,"Behavior":"release")";
  if (options.ttl.count() != 0) body += R"(,"TTL":")" + to_go_duration(options.ttl) + '"';
  if (!options.name.empty()) {
    body += R"(,"Name":)";
    append_quoted(body, options.name);
  }
  // If these fields are missing, Consul adds serfHealth, a check that only a node with an agent has.
  if (!options.node.empty()) {
    append_quoted(body += R"(,"Node":)", options.node);
    body += R"(,"NodeChecks":[],"Checks":[])";
  } else if (!options.node_checks) {
    body += R"(,"NodeChecks":[])";
  }
  body += '}';
  return body;
}

std::string write_node(const node_registration& node, std::string_view datacenter) {
  std::string body = "{";
  if (!datacenter.empty()) {
    append_quoted(body += R"("Datacenter":)", datacenter);
    body += ',';
  }
  append_quoted(body += R"("Node":)", node.name);
  append_quoted(body += R"(,"Address":)", node.address);
  body += '}';
  return body;
}

}  // namespace holdfast::consul::detail

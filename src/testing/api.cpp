// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "api.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <map>

#include "consul/encoding/base64.hpp"
#include "go_text.hpp"
#include "net/percent_encoding.hpp"
#include "ways.hpp"

namespace holdfast::testing::detail {
namespace {

namespace json = boost::json;
using consul::kv_entry;
using consul::session_behavior;
using consul::session_info;
using consul::txn_operation;
using consul::txn_verb;
using std::chrono::nanoseconds;

constexpr nanoseconds wait_default = std::chrono::minutes(5);
constexpr nanoseconds wait_max = std::chrono::minutes(10);
constexpr std::size_t json_depth_max = 32;
constexpr const char* data_center = "dc1";

// --- Requests

using parameters = std::multimap<std::string, std::string, std::less<>>;

// In a query, a plus sign stands for a space.
std::optional<std::string> query_decoded(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return net::percent_decoded(text);
}

parameters parse_query(std::string_view query) {
  parameters out;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto name = query_decoded(std::string(pair.substr(0, equals)));
    auto value = query_decoded(std::string(pair.substr(std::min(equals + 1, pair.size()))));
    if (!pair.empty() && name && value) out.emplace(std::move(*name), std::move(*value));
  }
  return out;
}

std::string value_of(const parameters& query, std::string_view name) {
  const auto at = query.find(name);
  return at == query.end() ? std::string() : at->second;
}

bool parse_number(std::string_view text, std::uint64_t& out) noexcept {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc() && end == text.data() + text.size();
}

// Consul refuses paths with unprintable characters. This check is exact for ASCII.
bool is_printable(std::string_view path) {
  return std::none_of(path.begin(), path.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// The path to which Go's router redirects, because it treats the two as equal. Empty if it does not redirect.
std::optional<std::string> cleaned(std::string_view path) {
  std::vector<std::string_view> segments;
  bool differs = false;
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    const bool last = end == path.size();
    if (segment == "..") {
      if (!segments.empty()) segments.pop_back();
      differs = true;
    } else if (segment == "." || (segment.empty() && !last)) {
      differs = true;
    } else {
      segments.push_back(segment);
    }
    at = end + 1;
  }
  if (!differs) return std::nullopt;
  std::string out;
  for (const std::string_view segment : segments) out.append("/").append(segment);
  return out.empty() ? "/" : out;
}

// --- Replies

api_reply text_reply(unsigned status, std::string text) {
  return {status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(text)};
}

api_reply json_reply(const json::value& value, unsigned status = 200) {
  return {status, {{"Content-Type", "application/json"}}, valid_utf8(json::serialize(value))};
}

api_reply bool_reply(bool value) { return json_reply(value); }

api_reply refused(const refusal& why) { return text_reply(why.status, why.text); }

api_reply not_found() { return {404, {}, {}}; }

void add_meta(api_reply& reply, std::optional<std::uint64_t> index, bool known_leader = true) {
  if (index) reply.headers.emplace_back("X-Consul-Index", std::to_string(*index));
  reply.headers.emplace_back("X-Consul-Knownleader", known_leader ? "true" : "false");
  reply.headers.emplace_back("X-Consul-Lastcontact", "0");
}

api_reply too_large(std::size_t size, std::size_t most, const char* option) {
  return text_reply(413, "Request body(" + std::to_string(size) +
                             " bytes) too large, max size: " + std::to_string(most) +
                             " bytes. See https://www.consul.io/docs/agent/options.html#" + option + ".");
}

json::object to_json(const kv_entry& entry, bool with_value = true) {
  json::object out;
  out["LockIndex"] = entry.lock_index;
  out["Key"] = entry.key;
  out["Flags"] = entry.flags;
  if (with_value && !entry.value.empty()) {
    std::string encoded;
    consul::detail::append_base64(encoded, entry.value);
    out["Value"] = encoded;
  } else {
    out["Value"] = nullptr;
  }
  if (!entry.session.empty()) out["Session"] = entry.session;
  out["CreateIndex"] = entry.create_index;
  out["ModifyIndex"] = entry.modify_index;
  return out;
}

json::object to_json(const session_info& session) {
  json::array checks;
  for (const std::string& check : session.node_checks) checks.emplace_back(check);
  json::object out;
  out["ID"] = session.id;
  out["Name"] = session.name;
  out["Node"] = session.node;
  out["LockDelay"] = session.lock_delay.count();
  out["Behavior"] = session.behavior == session_behavior::remove ? "delete" : "release";
  out["TTL"] = session.ttl.count() == 0 ? std::string() : go_duration(session.ttl);
  out["NodeChecks"] = std::move(checks);
  out["ServiceChecks"] = nullptr;
  out["CreateIndex"] = session.create_index;
  out["ModifyIndex"] = session.modify_index;
  return out;
}

// The form of a node that a client has registered. The model's own node has the same form. A real agent reports more
// fields of its own node.
json::object to_json(const node_info& node) {
  json::object out;
  out["ID"] = "";
  out["Node"] = node.name;
  out["Address"] = node.address;
  out["Datacenter"] = data_center;
  out["TaggedAddresses"] = nullptr;
  out["Meta"] = nullptr;
  out["CreateIndex"] = node.create_index;
  out["ModifyIndex"] = node.modify_index;
  return out;
}

template <class T>
json::array to_array(const std::vector<T>& list) {
  json::array out;
  for (const T& each : list) out.push_back(to_json(each));
  return out;
}

// Parses one value. Like Go's decoder, it ignores text after the value.
bool parse_json(std::string_view body, json::value& out) {
  const std::string text = valid_utf8(body);
  json::parse_options options;
  options.max_depth = json_depth_max;
  json::stream_parser parser({}, options);
  boost::system::error_code ec;
  parser.write_some(text.data(), text.size(), ec);
  if (!ec && !parser.done()) parser.finish(ec);
  if (ec) return false;
  out = parser.release();
  return true;
}

// The error text of Go's decoder, as far as it is known.
std::string decoder_text(std::string_view body) {
  const std::size_t begin = body.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "EOF";
  if (std::string_view("{[\"-0123456789tfn").find(body[begin]) != std::string_view::npos) return "unexpected EOF";
  return std::string("invalid character '") + body[begin] + "' looking for beginning of value";
}

std::string cannot_unmarshal(const json::value& value, std::string_view into) {
  const char* const kind = value.is_string()   ? "string"
                           : value.is_number() ? "number"
                           : value.is_bool()   ? "bool"
                           : value.is_array()  ? "array"
                                               : "object";
  return std::string("json: cannot unmarshal ") + kind + " into " + std::string(into);
}

// Like Go's decoder, it ignores the case of names.
const json::value* member_of(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(json::string_view(name.data(), name.size()));
  for (const auto& member : from)
    if (!found && lower_case({member.key().data(), member.key().size()}) == lower_case(name)) found = &member.value();
  return found;
}

// Like `member_of`, but null counts as missing.
const json::value* field_of(const json::object& from, std::string_view name) {
  const json::value* const found = member_of(from, name);
  return found && !found->is_null() ? found : nullptr;
}

std::string_view text_of(const json::object& from, std::string_view name) {
  const json::value* const field = field_of(from, name);
  const json::string* const text = field ? field->if_string() : nullptr;
  return text ? std::string_view(text->data(), text->size()) : std::string_view();
}

// The error text if one of these fields is not a string.
std::optional<std::string> not_a_text(const json::object& from, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const json::value* const field = field_of(from, name);
    if (field && !field->is_string())
      return cannot_unmarshal(*field, "Go struct field ." + std::string(name) + " of type string");
  }
  return std::nullopt;
}

// --- Reads: whether a read blocks, and on which subject

struct reading {
  std::uint64_t index = 0;
  nanoseconds wait = wait_default;
};

std::optional<api_reply> parse_reading(const parameters& query, reading& out) {
  const std::string wait = value_of(query, "wait");
  if (!wait.empty() && parse_duration(wait, out.wait)) return text_reply(400, "Invalid wait time");
  const std::string index = value_of(query, "index");
  if (!index.empty() && !parse_number(index, out.index)) return text_reply(400, "Invalid index");
  if (query.contains("stale") && query.contains("consistent"))
    return text_reply(400, "Cannot specify ?stale with ?consistent, conflicting semantics.");
  if (out.wait <= nanoseconds(0)) out.wait = wait_default;
  out.wait = std::min(out.wait, wait_max);
  return std::nullopt;
}

api_answer read_answer(api_reply reply, const reading& asked, std::uint64_t index, subject what) {
  add_meta(reply, index);
  api_answer out{std::move(reply)};
  if (asked.index == 0 || index > asked.index) return out;
  out.waits_for = std::move(what);
  out.wait = asked.wait;
  return out;
}

// --- Endpoints. `name` is the rest of the path after the endpoint's path.

struct call {
  store& model;
  const api_request& request;
  const parameters& query;
  std::string name;
  store::time_point now;
  std::mt19937_64& random;
};

std::optional<api_reply> conflicting(const parameters& query, std::initializer_list<std::string_view> names) {
  const auto given = std::count_if(names.begin(), names.end(), [&](std::string_view n) { return query.contains(n); });
  if (given < 2) return std::nullopt;
  std::string text = "Conflicting flags: ";
  for (bool first = true; const auto& [name, value] : query) {
    text.append(first ? "" : "&").append(name).append("=").append(value);
    first = false;
  }
  return text_reply(400, std::move(text));
}

// Empty if the parameter is present but not a number.
std::optional<std::uint64_t> number_of(const parameters& query, std::string_view name) {
  std::uint64_t number = 0;
  if (query.contains(name) && !parse_number(value_of(query, name), number)) return std::nullopt;
  return number;
}

api_reply bad_number(const parameters& query, std::string_view name) {
  const std::string text = value_of(query, name);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return text_reply(
      500, "strconv.ParseUint: parsing " + go_quoted(text) + ": " + (digits ? "value out of range" : "invalid syntax"));
}

api_answer kv_read(const call& c) {
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const subject below{subject::kind::prefix, c.name};
  if (c.query.contains("keys")) {
    const auto found = c.model.keys(c.name, value_of(c.query, "separator"));
    const bool none = found.value.empty();
    return read_answer(none ? not_found() : json_reply(json::value_from(found.value)), asked, found.meta.index, below);
  }
  if (c.query.contains("recurse")) {
    const auto found = c.model.list(c.name);
    const bool none = found.value.empty();
    return read_answer(none ? not_found() : json_reply(to_array(found.value)), asked, found.meta.index, below);
  }
  if (c.name.empty()) return {text_reply(400, "Missing key name")};
  const auto found = c.model.get(c.name);
  const subject key{subject::kind::key, c.name};
  if (!found.value) return read_answer(not_found(), asked, found.meta.index, key);
  if (c.query.contains("raw"))
    return read_answer({200,
                        {{"Content-Type", "text/plain"},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Content-Security-Policy", "sandbox"}},
                        found.value->value},
                       asked, found.meta.index, key);
  return read_answer(json_reply(json::array{to_json(*found.value)}), asked, found.meta.index, key);
}

api_answer kv_apply(const call& c, const txn_operation& op) {
  const write_result came_to = c.model.write(op, c.now);
  if (came_to.refused) return {refused(*came_to.refused)};
  return {bool_reply(came_to.done)};
}

api_answer kv_put(const call& c) {
  if (c.name.empty()) return {text_reply(400, "Missing key name")};
  if (auto wrong = conflicting(c.query, {"cas", "acquire", "release"})) return {std::move(*wrong)};
  const auto flags = number_of(c.query, "flags");
  if (!flags) return {bad_number(c.query, "flags")};
  const auto index = number_of(c.query, "cas");
  if (!index || (c.query.contains("cas") && value_of(c.query, "cas").empty())) return {bad_number(c.query, "cas")};
  const std::size_t most = c.model.options().value_bytes_max;
  if (c.request.body.size() > most) return {too_large(c.request.body.size(), most, "kv_max_value_size")};
  txn_operation op = txn_operation::set(c.name, c.request.body, *flags);
  op.index = *index;
  if (c.query.contains("cas")) op.verb = txn_verb::cas;
  for (const auto& [name, verb] : {std::pair{"acquire", txn_verb::lock}, std::pair{"release", txn_verb::unlock}}) {
    if (!c.query.contains(name)) continue;
    op.verb = verb;
    op.session = value_of(c.query, name);
  }
  return kv_apply(c, op);
}

api_answer kv_delete(const call& c) {
  if (auto wrong = conflicting(c.query, {"recurse", "cas"})) return {std::move(*wrong)};
  if (c.query.contains("recurse")) return kv_apply(c, txn_operation::remove_tree(c.name));
  if (c.name.empty()) return {text_reply(400, "Missing key name")};
  if (!c.query.contains("cas")) return kv_apply(c, txn_operation::remove(c.name));
  const auto index = number_of(c.query, "cas");
  if (!index) return {bad_number(c.query, "cas")};
  return kv_apply(c, txn_operation::remove_cas(c.name, *index));
}

std::string new_session_id(std::mt19937_64& random) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string id;
  for (int i = 0; i < 32; ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) id += '-';
    id += digits[random() & 15];
  }
  return id;
}

// Parses a lock delay, and returns an error text if a string is not a duration. A number is in nanoseconds, but a value
// below 1000 is in seconds, even if it is negative or was given as a string. Other JSON types mean 0.
std::optional<std::string> lock_delay_of(const json::value& field, nanoseconds& out) {
  nanoseconds delay{0};
  if (const json::string* const text = field.if_string()) {
    if (auto wrong = parse_duration({text->data(), text->size()}, delay)) return wrong;
  } else if (field.is_number()) {
    delay = nanoseconds(static_cast<std::int64_t>(std::clamp(field.to_number<double>(), -9e18, 9e18)));
  }
  constexpr std::int64_t second = 1'000'000'000;
  out = delay < nanoseconds(1000) ? std::max(delay, nanoseconds(-9 * second)) * second : delay;
  return std::nullopt;
}

// Parses a list of checks. Returns an error text if it is not a list of strings. Null is an empty list. If the field is
// missing, `out` keeps its value.
std::optional<std::string> parse_checks(const json::object& fields, const char* name, std::vector<std::string>& out) {
  const json::value* const given = member_of(fields, name);
  if (!given) return std::nullopt;
  out.clear();
  if (given->is_null()) return std::nullopt;
  const json::array* const checks = given->if_array();
  const std::string field = "Go struct field ." + std::string(name) + " of type ";
  if (!checks) return cannot_unmarshal(*given, field + "[]types.CheckID");
  for (const json::value& check : *checks) {
    if (!check.is_string()) return cannot_unmarshal(check, field + "types.CheckID");
    out.emplace_back(check.get_string());
  }
  return std::nullopt;
}

// Fills `out` from the body. Returns a refusal if the body is not valid.
std::optional<refusal> parse_session(std::string_view body, session_info& out) {
  out.lock_delay = std::chrono::seconds(15);
  out.node_checks = {"serfHealth"};
  if (body.empty()) return std::nullopt;
  const auto undecodable = [](const std::string& why) { return refusal{400, "Request decode failed: " + why}; };
  json::value parsed;
  if (!parse_json(body, parsed)) return undecodable(decoder_text(body));
  if (parsed.is_null()) return std::nullopt;
  const json::object* const fields = parsed.if_object();
  if (!fields)
    return undecodable(cannot_unmarshal(parsed, "Go value of type struct { LockDelay interface {}; *structs.Alias }"));
  if (const auto wrong = not_a_text(*fields, {"Name", "Node", "Behavior", "TTL"})) return undecodable(*wrong);
  for (const char* const name : {"Checks", "NodeChecks"})
    if (const auto wrong = parse_checks(*fields, name, out.node_checks)) return undecodable(*wrong);
  if (const json::value* const delay = field_of(*fields, "LockDelay"))
    if (const auto wrong = lock_delay_of(*delay, out.lock_delay)) return undecodable(*wrong);
  out.name = text_of(*fields, "Name");
  out.node = text_of(*fields, "Node");
  const std::string_view behavior = text_of(*fields, "Behavior");
  if (behavior != "" && behavior != "release" && behavior != "delete")
    return refusal{500, "Invalid Behavior setting '" + std::string(behavior) + "'"};
  out.behavior = behavior == "delete" ? session_behavior::remove : session_behavior::release;
  const std::string_view ttl = text_of(*fields, "TTL");
  if (ttl.empty()) return std::nullopt;
  if (const auto wrong = parse_duration(ttl, out.ttl))
    return refusal{500, "Session TTL '" + std::string(ttl) + "' invalid: " + *wrong};
  return std::nullopt;
}

api_answer session_create(const call& c) {
  session_info session;
  if (auto wrong = parse_session(c.request.body, session)) return {refused(*wrong)};
  const std::string id = session.id = new_session_id(c.random);
  if (auto wrong = c.model.create_session(std::move(session), c.now)) return {refused(*wrong)};
  return {json_reply(json::object{{"ID", id}})};
}

// The refusal of the session id in the path. Empty if the id is valid.
std::optional<api_reply> bad_session(const call& c) {
  if (c.name.empty()) return text_reply(400, "Missing session");
  if (ways::session_ids_are_any_text(c.model.options().version)) return std::nullopt;
  if (auto wrong = malformed_session_id(c.name)) return text_reply(500, std::move(*wrong));
  return std::nullopt;
}

api_answer session_destroy(const call& c) {
  if (auto wrong = bad_session(c)) {
    const bool says_more = wrong->status == 500 && ways::errors_say_what_failed(c.model.options().version);
    if (says_more) wrong->body.insert(0, "apply failed: ");
    return {std::move(*wrong)};
  }
  c.model.destroy_session(c.name, c.now);
  return {bool_reply(true)};
}

api_answer session_renew(const call& c) {
  if (auto wrong = bad_session(c)) return {std::move(*wrong)};
  if (!c.model.renew_session(c.name, c.now)) return {text_reply(404, "Session id '" + c.name + "' not found")};
  return {json_reply(json::array{to_json(*c.model.session(c.name).value)})};
}

api_answer session_read(const call& c) {
  if (auto wrong = bad_session(c)) {
    if (wrong->status == 500) add_meta(*wrong, 1, false);
    return {std::move(*wrong)};
  }
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const auto found = c.model.session(c.name);
  json::array list;
  if (found.value) list.push_back(to_json(*found.value));
  return read_answer(json_reply(list), asked, found.meta.index, {subject::kind::session, c.name});
}

api_answer session_list(const call& c) {
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const auto found = c.model.sessions();
  return read_answer(json_reply(to_array(found.value)), asked, found.meta.index, {subject::kind::sessions, {}});
}

api_answer session_node(const call& c) {
  if (c.name.empty()) return {text_reply(400, "Missing node name")};
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const auto found = c.model.sessions_of(c.name);
  return read_answer(json_reply(to_array(found.value)), asked, found.meta.index,
                     {subject::kind::node_sessions, c.name});
}

// --- The catalog: nodes by their names and addresses

struct node_registration {
  std::string node;
  std::string address;
  std::string data_center;
};

// Unlike for sessions, Consul refuses unknown fields here. The model also refuses fields that only Consul knows, unless
// they are empty.
std::optional<refusal> parse_registration(std::string_view body, std::initializer_list<std::string_view> not_modelled,
                                          const std::string& type, const std::string& field_type,
                                          node_registration& out) {
  const auto undecodable = [](const std::string& why) { return refusal{400, "Request decode failed: " + why}; };
  json::value parsed;
  if (!parse_json(body, parsed)) return undecodable(decoder_text(body));
  if (parsed.is_null()) return std::nullopt;
  const json::object* const fields = parsed.if_object();
  if (!fields) return undecodable(cannot_unmarshal(parsed, "Go value of type " + type));
  const std::pair<const char*, std::string*> texts[] = {
      {"Node", &out.node}, {"Address", &out.address}, {"Datacenter", &out.data_center}};
  for (const auto& [key, value] : *fields) {
    const std::string name(key);
    const auto is_it = [&name](std::string_view known) { return lower_case(known) == lower_case(name); };
    const auto text =
        std::find_if(std::begin(texts), std::end(texts), [&](const auto& each) { return is_it(each.first); });
    if (text == std::end(texts)) {
      if (std::none_of(not_modelled.begin(), not_modelled.end(), is_it))
        return undecodable("json: unknown field " + go_quoted(name));
      const bool is_empty =
          value.is_null() || value == "" || value == false || value == json::array() || value == json::object();
      if (!is_empty) return refusal{500, "the model of Consul knows no " + name + " of a node"};
    } else if (value.is_string()) {
      *text->second = std::string(value.get_string());
    } else if (!value.is_null()) {
      return undecodable(
          cannot_unmarshal(value, "Go struct field " + field_type + '.' + text->first + " of type string"));
    }
  }
  if (!out.data_center.empty() && out.data_center != data_center) return refusal{500, "No path to datacenter"};
  return std::nullopt;
}

api_answer catalog_register(const call& c) {
  node_registration asked;
  if (auto wrong = parse_registration(
          c.request.body,
          {"ID", "TaggedAddresses", "NodeMeta", "Service", "Check", "Checks", "SkipNodeUpdate", "EnterpriseMeta"},
          "structs.RegisterRequest", "RegisterRequest", asked))
    return {refused(*wrong)};
  if (auto wrong = c.model.register_node(asked.node, asked.address, c.now)) return {refused(*wrong)};
  return {bool_reply(true)};
}

api_answer catalog_deregister(const call& c) {
  node_registration asked;
  if (auto wrong = parse_registration(c.request.body, {"ServiceID", "CheckID"},
                                      "struct { Address string; *structs.Alias }", "", asked))
    return {refused(*wrong)};
  if (asked.node.empty()) return {text_reply(500, "Must provide node")};
  c.model.deregister_node(asked.node, c.now);
  return {bool_reply(true)};
}

api_answer catalog_nodes(const call& c) {
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const auto found = c.model.nodes();
  return read_answer(json_reply(to_array(found.value)), asked, found.meta.index, {subject::kind::nodes, {}});
}

api_answer catalog_node(const call& c) {
  if (c.name.empty()) return {text_reply(400, "Missing node name")};
  reading asked;
  if (auto wrong = parse_reading(c.query, asked)) return {std::move(*wrong)};
  const auto found = c.model.node(c.name);
  json::value body;
  if (found.value) body = json::object{{"Node", to_json(*found.value)}, {"Services", json::object()}};
  return read_answer(json_reply(body), asked, found.meta.index, {subject::kind::node, c.name});
}

// --- Transactions

struct transaction {
  std::vector<txn_operation> operations;
  std::vector<std::size_t> places;         // the positions of `operations` in the request
  std::vector<consul::txn_error> unknown;  // operations with unknown verbs
  std::optional<api_reply> too_large;      // the reply for the first value that is too large
  bool writes = false;
};

bool number_field(const json::object& from, std::string_view name, std::uint64_t& out) {
  const json::value* const field = field_of(from, name);
  if (!field) return true;
  boost::system::error_code ec;
  out = field->to_number<std::uint64_t>(ec);
  return !ec && !field->is_double();
}

// The position at which Go's decoder stops: the first illegal byte, or the beginning of an incomplete last group.
std::size_t first_illegal(std::string_view base64) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t end = std::min(base64.find_first_not_of(digits), base64.size());
  if (end == base64.size()) return end / 4 * 4;
  if (base64[end] != '=' || end % 4 < 2) return end;
  const std::size_t behind = end / 4 * 4 + 4;  // the padded group is the last one
  return end % 4 == 3 || base64.substr(end, 2) == "==" ? std::min(behind, base64.size()) : end;
}

std::optional<api_reply> parse_operation(const json::object& kv, std::size_t place, const store_options& options,
                                         transaction& out) {
  const std::size_t value_max = options.value_bytes_max;
  const consul_version version = options.version;
  if (const auto wrong = not_a_text(kv, {"Verb", "Key", "Value", "Session"}))
    return text_reply(400, "Failed to parse body: " + *wrong);
  txn_operation op;
  op.key = text_of(kv, "Key");
  op.session = text_of(kv, "Session");
  if (!number_field(kv, "Flags", op.flags) || !number_field(kv, "Index", op.index))
    return text_reply(400, "Failed to parse body: json: cannot unmarshal number into Go struct field of type uint64");
  if (!consul::detail::decode_base64(text_of(kv, "Value"), op.value))
    return text_reply(400, "Failed to parse body: illegal base64 data at input byte " +
                               std::to_string(first_illegal(text_of(kv, "Value"))));
  if (op.value.size() > value_max && !out.too_large)
    out.too_large =
        text_reply(413, "Value for key " + go_quoted(op.key) + " is too large (" + std::to_string(op.value.size()) +
                            " > " + std::to_string(value_max) + " bytes)");
  const std::string_view name = text_of(kv, "Verb");
  const auto verb =
      std::find_if(std::begin(kv_verbs), std::end(kv_verbs), [&](kv_verb each) { return to_string(each) == name; });
  if (verb == std::end(kv_verbs)) {
    const std::string unknown = ways::verbs_are_checked_first(version) ? "unknown KV operation: " + std::string(name)
                                                                       : "unknown KV verb " + go_quoted(name);
    out.unknown.push_back({place, consul::txn_refusal::other, op.key.empty() ? "Must provide key" : unknown});
    return std::nullopt;
  }
  op.verb = *verb;
  out.writes = out.writes || is_write(*verb);
  out.operations.push_back(std::move(op));
  out.places.push_back(place);
  return std::nullopt;
}

std::optional<api_reply> parse_transaction(const call& c, transaction& out) {
  const std::size_t most = std::max(c.model.options().txn_bytes_max, c.model.options().value_bytes_max);
  const std::string& body = c.request.body;
  if (body.size() > most) return too_large(body.size(), most, "txn_max_req_len");
  json::value parsed;
  if (!parse_json(body, parsed)) return text_reply(400, "Failed to parse body: " + decoder_text(body));
  if (parsed.is_null()) return std::nullopt;
  const json::array* const list = parsed.if_array();
  if (!list) return text_reply(400, "Failed to parse body: " + cannot_unmarshal(parsed, "Go value of type api.TxnOps"));
  for (std::size_t place = 0; place < list->size(); ++place) {
    const json::object* const op = (*list)[place].if_object();
    const json::value* const kv = op ? field_of(*op, "KV") : nullptr;
    const json::object* const fields = kv ? kv->if_object() : nullptr;
    if (!op || (kv && !fields))
      return text_reply(
          400, "Failed to parse body: " + cannot_unmarshal(op ? *kv : (*list)[place], "Go value of type api.TxnOp"));
    if (!fields) continue;  // not a KV operation
    if (auto wrong = parse_operation(*fields, place, c.model.options(), out)) return wrong;
  }
  const std::size_t operations_max = ways::operations_max(c.model.options().version);
  if (list->size() > operations_max)
    return text_reply(413, "Transaction contains too many operations (" + std::to_string(list->size()) + " > " +
                               std::to_string(operations_max) + ")");
  return out.too_large;
}

api_answer txn(const call& c) {
  transaction asked;
  if (auto wrong = parse_transaction(c, asked)) return {std::move(*wrong)};
  consul::txn_reply came_to;
  if (asked.unknown.empty()) {
    came_to = c.model.transact(asked.operations, c.now);
  } else {
    const bool checked_first = ways::verbs_are_checked_first(c.model.options().version);
    // Consul then refuses the transaction before it tries it. An operation without a key has the same effect here.
    if (checked_first) asked.operations.push_back(txn_operation::set({}, {}));
    store(c.model).transact(asked.operations, c.now).errors.swap(came_to.errors);  // on a copy: must not apply
    if (checked_first) came_to.errors.pop_back();
  }
  for (consul::txn_error& each : came_to.errors) each.operation = asked.places[each.operation];
  came_to.errors.insert(came_to.errors.end(), asked.unknown.begin(), asked.unknown.end());
  std::sort(came_to.errors.begin(), came_to.errors.end(),
            [](const auto& a, const auto& b) { return a.operation < b.operation; });

  json::object body;
  if (came_to.applied) {
    json::array results;
    for (const kv_entry& entry : came_to.results) results.push_back(json::object{{"KV", to_json(entry)}});
    body["Results"] = std::move(results);
    body["Errors"] = nullptr;
  } else {
    json::array errors;
    for (const auto& each : came_to.errors)
      errors.push_back(json::object{{"OpIndex", each.operation}, {"What", each.text}});
    body["Results"] = nullptr;
    body["Errors"] = std::move(errors);
  }
  if (!asked.writes) {
    const consul_version version = c.model.options().version;
    // Consul leaves these fields empty if it refuses the transaction before it tries it.
    const bool tried = asked.unknown.empty() || !ways::verbs_are_checked_first(version);
    body["Index"] = ways::reads_say_more(version) && tried ? 1 : 0;
    body["LastContact"] = 0;
    body["KnownLeader"] = tried;
    body["ConsistencyLevel"] = "";
    if (ways::reads_say_more(version)) {
      body["NotModified"] = false;
      body["Backend"] = 0;
    }
    if (ways::reads_say_what_was_filtered(version)) body["ResultsFilteredByACLs"] = false;
  }
  api_reply reply = json_reply(body, came_to.applied ? 200 : 409);
  if (!asked.writes) add_meta(reply, std::nullopt);
  return {std::move(reply)};
}

// --- Information about the agent

api_answer status_leader(const call&) { return {json_reply("127.0.0.1:8300")}; }

api_answer agent_self(const call& c) {
  const json::object settings{{"Datacenter", data_center},
                              {"NodeName", c.model.options().node},
                              {"Server", true},
                              {"Version", c.model.options().version.to_text()}};
  return {json_reply(json::object{{"Config", settings}, {"Member", json::object{{"Name", c.model.options().node}}}})};
}

// --- Routes

struct route {
  std::string_view path;
  bool named;  ///< the path continues with a name
  std::string_view method;
  api_answer (*handle)(const call&);
  bool ignores_dc = false;  ///< ignores the query parameter "dc"
};

constexpr route routes[] = {
    {"/v1/kv/", true, "GET", kv_read},
    {"/v1/kv/", true, "PUT", kv_put},
    {"/v1/kv/", true, "DELETE", kv_delete},
    {"/v1/session/create", false, "PUT", session_create},
    {"/v1/session/destroy/", true, "PUT", session_destroy},
    {"/v1/session/renew/", true, "PUT", session_renew},
    {"/v1/session/info/", true, "GET", session_read},
    {"/v1/session/node/", true, "GET", session_node},
    {"/v1/session/list", false, "GET", session_list},
    {"/v1/catalog/register", false, "PUT", catalog_register, true},
    {"/v1/catalog/deregister", false, "PUT", catalog_deregister, true},
    {"/v1/catalog/nodes", false, "GET", catalog_nodes},
    {"/v1/catalog/node/", true, "GET", catalog_node},
    {"/v1/txn", false, "PUT", txn},
    {"/v1/status/leader", false, "GET", status_leader},
    {"/v1/agent/self", false, "GET", agent_self},
};

bool leads_to(const route& r, std::string_view path) { return r.named ? path.starts_with(r.path) : path == r.path; }

// Encodes the path as Go does, which leaves more characters unescaped than necessary.
api_reply moved_to(std::string_view path, std::string_view query) {
  std::string location;
  net::append_encoded(location, path, "$&+,/:;=@");
  return {301, {{"Location", location.append(query)}}, {}};
}

api_reply wrong_method(std::string_view path, const std::string& method) {
  std::string allowed = "OPTIONS";
  for (const route& each : routes)
    if (leads_to(each, path)) allowed.append(",").append(each.method);
  if (allowed == "OPTIONS") return not_found();
  api_reply reply = method == "OPTIONS" ? api_reply{200, {}, {}} : text_reply(405, "method " + method + " not allowed");
  reply.headers.emplace_back("Allow", std::move(allowed));
  return reply;
}

constexpr std::string_view kv_path = "/v1/kv/";

// The reason for which Consul refuses a key in a path. Empty if it does not.
std::optional<std::string> bad_key(std::string_view key) {
  constexpr auto spaces = "invalid key name, leading/trailing spaces are not allowed";
  constexpr auto traversal = "invalid key name, path traversal is not allowed";
  if (key.starts_with(' ') || key.ends_with(' ')) return spaces;
  // Consul decodes the key once more, so a key must not contain an escaped space or ".." either.
  const auto decoded = net::percent_decoded(key);
  if (!decoded || *decoded == key) return std::nullopt;
  if (decoded->find("..") != std::string::npos) return traversal;
  if (decoded->find(' ') != std::string::npos) return spaces;
  return std::nullopt;
}

}  // namespace

api_answer api::handle(const api_request& request, store::time_point now) {
  const std::string_view target = request.target;
  const std::size_t question = std::min(target.find('?'), target.size());
  const auto path = net::percent_decoded(target.substr(0, question));
  if (!path || !path->starts_with('/')) return {text_reply(400, "400 Bad Request")};
  if (!is_printable(*path)) return {{400, {}, {}}};
  const consul_version version = model_.options().version;
  const bool begins_with_encoded_slash =
      ways::keys_may_begin_with_a_slash(version) && lower_case(target.substr(0, question)).starts_with("/v1/kv/%2f");
  if (const auto elsewhere = cleaned(*path); elsewhere && !begins_with_encoded_slash)
    return {moved_to(*elsewhere, target.substr(question))};
  const parameters query = parse_query(target.substr(std::min(question + 1, target.size())));
  if (path->starts_with(kv_path) && ways::keys_are_checked(version))
    if (auto wrong = bad_key(path->substr(kv_path.size()))) return {text_reply(500, std::move(*wrong))};

  for (const route& each : routes) {
    if (each.named && *path + '/' == each.path) return {moved_to(*path + '/', target.substr(question))};
    if (!leads_to(each, *path) || each.method != request.method) continue;
    const std::string asked_dc = each.ignores_dc ? std::string() : value_of(query, "dc");
    if (!asked_dc.empty() && asked_dc != data_center) return {text_reply(500, "No path to datacenter")};
    return each.handle({model_, request, query, path->substr(each.path.size()), now, random_});
  }
  return {wrong_method(*path, request.method)};
}

}  // namespace holdfast::testing::detail

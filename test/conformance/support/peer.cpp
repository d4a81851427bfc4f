// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "conformance/support/peer.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "support/idle.hpp"

namespace holdfast::test {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using clock = raw_request::clock;

// Longer than a peer waits for a reply. So no reply comes because the query's own time is over.
constexpr std::string_view wait = "40s";

std::string text(const json::value& v) { return v.is_string() ? std::string(v.as_string()) : std::string(); }

std::uint64_t number(const json::value& from, const char* name) { return from.at(name).to_number<std::uint64_t>(); }

entry to_entry(const json::value& from) {
  entry e;
  e.key = text(from.at("Key"));
  e.value = text(from.at("Value"));
  e.flags = number(from, "Flags");
  if (const auto* session = from.as_object().if_contains("Session")) e.session = text(*session);
  e.created = number(from, "CreateIndex");
  e.modified = number(from, "ModifyIndex");
  e.locked = number(from, "LockIndex");
  return e;
}

std::string without(const std::string& prefix, const std::string& key) {
  return key.starts_with(prefix) ? key.substr(prefix.size()) : key;
}

entry without(const std::string& prefix, entry e) {
  e.key = without(prefix, e.key);
  return e;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t given = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (j < given ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) out += j <= given ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

// --- Replies

std::string peer_reply::said() const {
  const bool newline = body.ends_with('\n');
  return std::to_string(status) + " " + body.substr(0, body.size() - (newline ? 1 : 0));
}

std::string peer_reply::complaint() const {
  constexpr std::string_view before = "400 Bad request: ";
  std::string text = said();
  if (text.starts_with(before)) text.replace(0, before.size(), "400 ");
  return text;
}

std::uint64_t peer_reply::index() const { return std::strtoull(header("x-consul-index").c_str(), nullptr, 10); }

std::string peer_reply::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? std::string() : at->second;
}

json::value peer_reply::json() const {
  boost::system::error_code ec;
  auto value = json::parse(body, ec);
  BOOST_REQUIRE_MESSAGE(!ec, "not JSON: " << said());
  return value;
}

std::size_t peer_reply::size() const {
  const auto value = json();
  BOOST_REQUIRE_MESSAGE(value.is_array(), "not an array: " << said());
  return value.as_array().size();
}

std::vector<entry> peer_reply::entries() const {
  BOOST_REQUIRE_MESSAGE(status == 200, said());
  std::vector<entry> out;
  const auto value = json();
  for (const auto& each : value.as_array()) out.push_back(to_entry(each));
  return out;
}

entry peer_reply::first() const { return entries().at(0); }

std::ostream& operator<<(std::ostream& out, const entry& e) {
  return out << "{key " << e.key << ", value " << e.value << ", flags " << e.flags << ", session " << e.session
             << ", created " << e.created << ", modified " << e.modified << ", locked " << e.locked << '}';
}

// --- Operations of a transaction

op& op::value(std::string_view v) { return with("Value", json::string(base64(v))); }

op& op::with(std::string_view name, json::value v) {
  fields_[json::string_view(name.data(), name.size())] = std::move(v);
  return *this;
}

json::value op::json(std::string_view prefix) const {
  json::object fields = fields_;
  fields["Key"] = std::string(prefix) + key_;
  return {{"KV", std::move(fields)}};
}

// --- Watches

watch::watch(raw_request request, pid_t process, std::chrono::milliseconds reply_within)
    : request_(std::move(request)), process_(process), reply_within_(reply_within) {
  wait_until_idle(process_, request_.socket(), clock::now() + reply_within_);
}

bool watch::still_waits() const {
  wait_until_idle(process_, request_.socket(), clock::now() + reply_within_);
  return !request_.answered_within(0ms);
}

peer_reply watch::woken() { return {request_.reply(clock::now() + reply_within_)}; }

// --- Peers

peer::peer(std::string host, std::uint16_t port, pid_t process, std::string prefix,
           std::chrono::milliseconds reply_within)
    : host_(std::move(host)), port_(port), process_(process), prefix_(std::move(prefix)), reply_within_(reply_within) {}

peer::~peer() {
  try {
    for (const auto& id : sessions_) destroy(id);
  } catch (const std::exception& e) {
    BOOST_TEST_MESSAGE("a session of a fact may be left behind: " << e.what());
  }
}

std::string peer::target(std::string_view name) const { return "/v1/kv/" + prefix_ + std::string(name); }

peer_reply peer::request(std::string_view method, std::string_view target, std::string_view body) const {
  const auto end = clock::now() + reply_within_;
  return {raw_request(host_, port_, method, target, body, end).reply(end)};
}

const testing::consul_version& peer::version() const {
  if (!version_) {
    const auto reply = request("GET", "/v1/agent/self");
    version_ = testing::consul_version::from_text(text(reply.json().at("Config").at("Version")));
    BOOST_REQUIRE_MESSAGE(version_, "no version: " << reply.said());
  }
  return *version_;
}

entry peer::read(std::string_view name) const { return without(prefix_, get(name).first()); }

std::vector<entry> peer::list(std::string_view prefix) const {
  const auto reply = get(std::string(prefix) + "?recurse");
  if (reply.status == 404) return {};
  auto out = reply.entries();
  for (auto& each : out) each = without(prefix_, std::move(each));
  return out;
}

std::string peer::keys(std::string_view prefix, std::string_view query) const {
  const auto reply = get(std::string(prefix) + "?keys" + std::string(query));
  if (reply.status == 404) return {};
  std::string out;
  const auto names = reply.json();
  for (const auto& each : names.as_array()) out.append(out.empty() ? "" : " ").append(without(prefix_, text(each)));
  return out;
}

std::string peer::session(json::object fields) {
  json::object body{{"Checks", json::array()}, {"LockDelay", "0s"}};
  for (auto& [name, value] : fields) body[name] = value;
  const auto reply = create_session(json::serialize(body));
  BOOST_REQUIRE_MESSAGE(reply.status == 200, "no session: " << reply.said());
  return text(reply.json().at("ID"));
}

peer_reply peer::create_session(std::string_view body) {
  auto reply = request("PUT", "/v1/session/create", body);
  if (reply.status == 200) sessions_.push_back(text(reply.json().at("ID")));
  return reply;
}

std::string peer::brief_session_with(std::string_view key, json::object fields) {
  for (auto ttl = 50ms;; ttl *= 2) {
    fields["TTL"] = std::to_string(ttl.count()) + "ms";
    std::string id = session(fields);
    if (put(std::string(key) + "?acquire=" + id, "v").said() == "200 true") return id;
    BOOST_REQUIRE(ttl < 20s);
  }
}

void peer::wait_for_end(std::string_view id) const {
  follow("/v1/session/info/" + std::string(id), 0, [](const peer_reply& reply) { return reply.size() == 0u; });
}

json::value peer::session_info(std::string_view id) const {
  const auto reply = info(id);
  BOOST_REQUIRE_MESSAGE(reply.status == 200 && reply.json().as_array().size() == 1,
                        "no such session: " << reply.said());
  return reply.json().at(0);
}

txn_outcome peer::txn(const std::vector<op>& operations) const {
  json::array body;
  for (const auto& each : operations) body.push_back(each.json(prefix_));
  txn_outcome out;
  out.reply = request("PUT", "/v1/txn", json::serialize(body));
  out.status = out.reply.status;
  if (out.status != 200 && out.status != 409) return out;
  const auto reply = out.reply.json();
  if (const auto* results = reply.at("Results").if_array())
    for (const auto& each : *results) out.results.push_back(without(prefix_, to_entry(each.at("KV"))));
  if (const auto* errors = reply.at("Errors").if_array())
    for (const auto& each : *errors)
      out.errors.push_back(std::to_string(number(each, "OpIndex")) + ": " + text(each.at("What")));
  return out;
}

watch peer::watch(std::string_view name, std::uint64_t index) const { return watch_target(target(name), index); }

peer_reply peer::follow(std::string_view target, std::uint64_t index,
                        const std::function<bool(const peer_reply&)>& is_last) const {
  for (;;) {
    auto reply = watch_target(target, index).woken();
    if (is_last(reply)) return reply;
    index = reply.index();
  }
}

watch peer::watch_target(std::string_view target, std::uint64_t index) const {
  std::string query(target);
  query += target.find('?') == std::string_view::npos ? '?' : '&';
  query += "index=" + std::to_string(index) + "&wait=";
  query += wait;
  const auto end = clock::now() + reply_within_;
  return {raw_request(host_, port_, "GET", query, {}, end), process_, reply_within_};
}

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client tells Consul's replies from those of a load balancer, an ingress or a login page. Here it is asked about
// what Consul answers to good and to bad requests of each kind.

#include <holdfast/consul/client.hpp>
#include <string>

#include "conformance/support/fact.hpp"
#include "consul/encoding/classify.hpp"

using holdfast::error;
using holdfast::error_code;
using kind = holdfast::consul::request_kind;

namespace {

holdfast::consul::detail::http_reply parsed(const holdfast::test::peer_reply& from) {
  holdfast::consul::detail::http_reply reply;
  reply.status = static_cast<unsigned>(from.status);
  reply.body = from.body;
  reply.content_type = from.header("content-type");
  reply.location = from.header("location");
  for (const auto& [name, value] : from.headers) reply.is_consuls = reply.is_consuls || name.starts_with("x-consul-");
  if (!from.header("x-consul-index").empty()) reply.index = std::stoull(from.header("x-consul-index"));
  return reply;
}

struct question {
  kind of;
  const char* method;
  std::string target;
  std::string body{};
};

error_code meaning(const holdfast::test::peer& consul, const question& asked) {
  const auto reply = consul.request(asked.method, asked.target, asked.body);
  const error_code ec = classify(asked.of, asked.target, parsed(reply));
  BOOST_TEST(ec != error::not_consul, asked.method << ' ' << asked.target.substr(0, 100) << ": " << reply.said());
  return ec;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(answers)

FACT(good_requests_are_answered) {
  const std::string key = "/v1/kv/" + consul.prefix() + "a";
  const std::string id = consul.session();
  const std::string operation = R"({"KV":{"Verb":"get","Key":")" + consul.prefix() + R"(a"}})";
  const question all[] = {
      {kind::kv_read, "GET", key},
      {kind::kv_read, "GET", key + "?recurse"},
      {kind::kv_read, "GET", key + "?keys"},
      {kind::kv_write, "PUT", key, "v"},
      {kind::kv_write, "PUT", key + "?cas=1", "v"},
      {kind::kv_read, "GET", key},
      {kind::kv_read, "GET", key + "?recurse"},
      {kind::kv_read, "GET", key + "?keys"},
      {kind::kv_write, "PUT", key + "?acquire=" + id, "v"},
      {kind::transact, "PUT", "/v1/txn", "[" + operation + "]"},
      {kind::transact, "PUT", "/v1/txn", "[]"},
      {kind::transact, "PUT", "/v1/txn", R"([{"KV":{"Verb":"get","Key":")" + consul.prefix() + R"(none"}}])"},
      {kind::session_renew, "PUT", "/v1/session/renew/" + id},
      {kind::session_read, "GET", "/v1/session/info/" + id},
      {kind::session_destroy, "PUT", "/v1/session/destroy/" + id},
      {kind::session_destroy, "PUT", "/v1/session/destroy/" + id},
      {kind::session_read, "GET", "/v1/session/info/" + id},
      {kind::node_read, "GET", "/v1/catalog/node/none"},
      {kind::kv_write, "DELETE", key},
  };
  for (const question& each : all) BOOST_TEST(!meaning(consul, each));
  BOOST_TEST(meaning(consul, {kind::session_renew, "PUT", "/v1/session/renew/" + id}) == error::invalid_session);
}

FACT(sessions_and_nodes_are_answered_when_they_are_made) {
  const question made{kind::session_create, "PUT", "/v1/session/create", R"({"LockDelay":"0s"})"};
  const auto reply = consul.create_session(made.body);
  BOOST_TEST(!classify(made.of, made.target, parsed(reply)), reply.said());
}

FACT(refused_requests_are_consuls) {
  const std::string key = "/v1/kv/" + consul.prefix() + "a";
  const std::string none = "11111111-2222-3333-4444-555555555555";
  const struct {
    question asked;
    error meaning;
  } all[] = {
      {{kind::kv_write, "PUT", key + "?acquire=" + none, "v"}, error::invalid_session},
      {{kind::kv_write, "PUT", key + "?cas=x", "v"}, error::server_error},
      {{kind::kv_write, "PUT", key + "?cas=1&acquire=x", "v"}, error::bad_request},
      {{kind::kv_write, "PUT", key, std::string(std::size_t{600} * 1024, 'v')}, error::too_large},
      {{kind::kv_write, "PUT", "/v1/kv/", "v"}, error::bad_request},
      {{kind::kv_write, "DELETE", "/v1/kv/"}, error::bad_request},
      {{kind::kv_write, "PUT", key + "//b", "v"}, error::bad_request},
      {{kind::kv_read, "GET", key + "//b"}, error::bad_request},
      {{kind::kv_write, "PUT", key + "%01", "v"}, error::bad_request},
      {{kind::kv_read, "GET", key + "?index=1&wait=zz"}, error::bad_request},
      {{kind::kv_read, "GET", key + "?index=zz"}, error::bad_request},
      {{kind::kv_read, "GET", key + "?stale&consistent"}, error::bad_request},
      {{kind::kv_read, "GET", key + "?dc=none"}, error::server_error},
      {{kind::session_create, "PUT", "/v1/session/create", R"({"TTL":"25h"})"}, error::invalid_ttl},
      {{kind::session_create, "PUT", "/v1/session/create", "{"}, error::bad_request},
      {{kind::session_create, "PUT", "/v1/session/create", R"({"Node":"none","NodeChecks":[]})"}, error::missing_node},
      {{kind::session_create, "PUT", "/v1/session/create", R"({"Checks":["none"]})"}, error::server_error},
      {{kind::session_renew, "PUT", "/v1/session/renew/"}, error::bad_request},
      {{kind::session_read, "GET", "/v1/session/info/"}, error::bad_request},
      {{kind::session_renew, "PUT", "/v1/session/renew/" + none}, error::invalid_session},
      {{kind::transact, "PUT", "/v1/txn", "["}, error::bad_request},
      {{kind::transact, "PUT", "/v1/txn?dc=none", R"([{"KV":{"Verb":"get","Key":"a"}}])"}, error::server_error},
      {{kind::kv_read, "PATCH", key}, error::bad_request},
  };
  for (const auto& [asked, expected] : all) {
    const error_code ec = meaning(consul, asked);
    BOOST_TEST(ec == expected, asked.method << ' ' << asked.target.substr(0, 100) << ": " << ec.message());
  }
}

BOOST_AUTO_TEST_SUITE_END()

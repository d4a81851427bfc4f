// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/classify.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace holdfast::consul::detail;
using holdfast::condition;
using holdfast::error;
using holdfast::error_code;
using holdfast::consul::request_kind;

namespace {

const std::string path = "/v1/kv/some/key";

http_reply said(unsigned status, std::string body = {}, std::string type = "text/plain; charset=utf-8") {
  http_reply reply;
  reply.status = status;
  reply.body = std::move(body);
  reply.content_type = std::move(type);
  return reply;
}

http_reply page(unsigned status) {
  return said(status, "<html><body>Please wait</body></html>", "text/html; charset=utf-8");
}

http_reply redirection(unsigned status, std::string location) {
  http_reply reply = page(status);
  reply.location = std::move(location);
  return reply;
}

http_reply with_header(http_reply reply) {
  reply.is_consuls = true;
  return reply;
}

http_reply with_index(http_reply reply) {
  reply.index = 7;
  return with_header(reply);
}

error_code meaning(const http_reply& reply, request_kind of = request_kind::kv_read) {
  return classify(of, path, reply);
}

struct answer_of {
  request_kind of;
  std::string body;
};

// As real agents begin them.
const std::vector<answer_of> answers = {
    {request_kind::kv_read, "[\n    {\n        \"LockIndex\": 0,"},
    {request_kind::kv_read, "[\n    \"a/k\"\n]\n"},
    {request_kind::kv_write, "true\n"},
    {request_kind::kv_write, "false"},
    {request_kind::transact, "{\n    \"Results\": [\n        {\n            \"KV\": {"},
    {request_kind::transact, R"({"Errors":[{"OpIndex":0,"What":"no"}]})"},
    {request_kind::session_create, "{\n    \"ID\": \"a0ba730d-2e4f-9c50-9d66-2fb34c4f2589\"\n}\n"},
    {request_kind::session_renew, "[\n    {\n        \"ID\": "},
    {request_kind::session_destroy, "true"},
    {request_kind::session_read, "[]\n"},
    {request_kind::node_write, "true\n"},
    {request_kind::node_read, "null\n"},
    {request_kind::node_read, "{\n    \"Node\": {\n        \"ID\": "},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_classify)

BOOST_AUTO_TEST_CASE(answers_are_decoded) {
  for (const auto& [of, body] : answers) BOOST_TEST(!meaning(said(200, body, {}), of), to_string(of) << body);
  BOOST_TEST(!meaning(said(409, R"({"Results":null,"Errors":[]})", {}), request_kind::transact));
  for (const request_kind of : {request_kind::kv_read, request_kind::session_read, request_kind::node_read})
    BOOST_TEST(!meaning(with_index(said(404)), of), to_string(of));
}

BOOST_AUTO_TEST_CASE(a_200_that_answers_another_question_is_not_consuls) {
  const char* const bodies[] = {
      "", "<html>maintenance</html>", R"({"status":"ok"})", "OK", "\"127.0.0.1:8300\"", "1", "\xef\xbb\xbf[]", "TRUE"};
  for (const request_kind of : holdfast::consul::request_kinds)
    for (const char* body : bodies) {
      const error_code ec = meaning(said(200, body, "text/html"), of);
      BOOST_TEST(ec == error::not_consul, to_string(of) << body);
    }
}

BOOST_AUTO_TEST_CASE(what_others_answer_is_unavailable_and_its_outcome_unknown) {
  std::vector<http_reply> all;
  for (const unsigned status : {201u, 202u, 204u, 206u, 300u, 302u, 303u, 304u, 308u, 400u, 401u, 402u, 403u, 404u,
                                405u, 406u, 407u, 408u, 409u, 410u, 411u, 412u, 413u, 414u, 415u, 418u, 421u, 422u,
                                423u, 425u, 426u, 428u, 431u, 451u, 499u, 500u, 501u, 502u, 503u, 504u, 520u, 530u}) {
    all.push_back(page(status));
    if (status < 500) {
      all.push_back(said(status));
      all.push_back(said(status, "default backend - " + std::to_string(status)));
    }
    all.push_back(said(status, R"({"error":"no upstream"})", "application/problem+json"));
  }
  for (const unsigned status : {301u, 302u, 307u, 308u}) {
    all.push_back(redirection(status, "https://sso.example/login?to=consul"));
    all.push_back(redirection(status, "/v1/kv/some/key"));
    all.push_back(redirection(status, "//elsewhere/v1/kv/some/key"));
  }
  all.push_back(said(0));
  all.push_back(said(600));
  for (const http_reply& reply : all) {
    for (const request_kind of : holdfast::consul::request_kinds) {
      const error_code ec = meaning(reply, of);
      BOOST_TEST(ec == error::not_consul, to_string(of) << ' ' << reply.status << ' ' << reply.body);
      BOOST_TEST((ec == condition::unavailable && ec == condition::outcome_unknown && ec != condition::not_applied));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_consul_refuses_fails_at_once) {
  struct refusal {
    unsigned status;
    std::string text;
    error meaning;
  };
  const refusal refusals[] = {
      {400, "Missing key name", error::bad_request},
      {400, "Bad request: Invalid query parameter: \"ns\" - Namespaces are a Consul Enterprise feature",
       error::bad_request},
      {400, "Invalid query parameter: \"partition\" - Partitions are a Consul Enterprise feature", error::bad_request},
      {400, "Invalid wait time", error::bad_request},
      {400, "Request decode failed: unexpected EOF", error::bad_request},
      {400, "Failed to parse body: unexpected EOF", error::bad_request},
      {400, "400 Bad Request: invalid header value", error::bad_request},
      {400, "Invalid Session TTL '1', must be", error::invalid_ttl},
      {400, "Client sent an HTTP request to an HTTPS server.\n", error::plain_http_refused},
      {403, "Permission denied", error::permission_denied},
      {403, "rpc error making call: ACL not found", error::permission_denied},
      {403, "Endpoint is blocked by agent configuration", error::permission_denied},
      {403, "Access is restricted", error::permission_denied},
      {404, "Invalid URL path: not a recognized HTTP API endpoint\n", error::bad_request},
      {405, "method POST not allowed", error::bad_request},
      {413, "Request body(614400 bytes) too large, max size: 524288 bytes.", error::too_large},
      {413, "Value for key \"k\" is too large (600000 > 524288 bytes)", error::too_large},
      {413, "Transaction contains too many operations (200 > 64)", error::too_large},
      {429, "", error::too_many_requests},
      {431, "431 Request Header Fields Too Large", error::bad_request},
  };
  for (const auto& [status, text, expected] : refusals) BOOST_TEST(meaning(said(status, text)) == expected, text);
  // From Consul 1.12 or so on, a header says whose reply it is.
  BOOST_TEST(meaning(with_header(said(400, "a text of later versions"))) == error::bad_request);
  BOOST_TEST(meaning(with_header(said(403, "a text of later versions"))) == error::permission_denied);
  BOOST_TEST(meaning(with_header(said(404))) == error::bad_request);
  BOOST_TEST(meaning(with_header(said(413, "a text of later versions"))) == error::too_large);
}

BOOST_AUTO_TEST_CASE(a_key_that_is_no_clean_path_is_redirected) {
  const std::string unclean = "/v1/kv/some//key?index=4&wait=1s";
  for (const unsigned status : {301u, 307u}) {
    BOOST_TEST(classify(request_kind::kv_read, unclean, redirection(status, "/v1/kv/some/key")) == error::bad_request);
    BOOST_TEST(classify(request_kind::kv_write, unclean, redirection(status, "/consul/v1/kv/some/key?index=4")) ==
               error::bad_request);
    BOOST_TEST(classify(request_kind::kv_write, unclean, redirection(status, "/login?to=/v1/kv/some/key")) ==
               error::not_consul);
    BOOST_TEST(classify(request_kind::kv_write, unclean, said(status)) == error::not_consul);
    for (const char* elsewhere : {"https://consul.example/v1/kv/some//key", "//elsewhere/"})
      BOOST_TEST(classify(request_kind::kv_read, unclean, redirection(status, elsewhere)) == error::not_consul);
    BOOST_TEST(classify(request_kind::kv_read, "/v1/kv/a?separator=//", said(status)) == error::not_consul);
  }
  BOOST_TEST(classify(request_kind::kv_read, unclean, redirection(302, "/v1/kv/some/key")) == error::not_consul);
}

BOOST_AUTO_TEST_CASE(about_a_character_that_it_does_not_take_consul_says_nothing) {
  BOOST_TEST(classify(request_kind::kv_write, "/v1/kv/a%01", said(400, {}, {})) == error::bad_request);
  BOOST_TEST(classify(request_kind::kv_write, "/v1/kv/a?flags=%01", said(400, {}, {})) == error::not_consul);
  BOOST_TEST(classify(request_kind::kv_write, "/v1/kv/a%01", page(400)) == error::not_consul);
}

BOOST_AUTO_TEST_CASE(sessions_end_only_by_consuls_word) {
  BOOST_TEST(meaning(said(404, "Session id 'x' not found"), request_kind::session_renew) == error::invalid_session);
  BOOST_TEST(meaning(said(404, "404 page not found"), request_kind::session_renew) == error::not_consul);
  BOOST_TEST(meaning(said(404, "Session id 'x' not found"), request_kind::kv_read) == error::not_consul);
}

BOOST_AUTO_TEST_CASE(a_few_texts_are_definite_though_their_status_is_not) {
  const std::pair<const char*, error> texts[] = {
      {R"(invalid session "00000000-0000-0000-0000-000000000000")", error::invalid_session},
      {"failed session lookup: index error: UUID must be 36 characters", error::invalid_session},
      {R"(rpc error making call: invalid session "x")", error::invalid_session},
      {R"(rpc error making call: rpc error making call: invalid session "x")", error::invalid_session},
      {"Missing node registration", error::missing_node},
      {"rpc error making call: Missing node registration", error::missing_node},
      {"apply failed: Missing node registration", error::missing_node},
      {"rpc error making call: rpc error making call: apply failed: Missing node registration", error::missing_node},
      {"Missing check 'serfHealth' registration", error::server_error},
      {R"(raft apply failed: invalid session "x")", error::invalid_session},
      {R"(rpc error making call: raft apply failed: invalid session "x")", error::invalid_session},
      {R"(apply failed: rpc error: raft apply failed: rpc error making call: invalid session "x")",
       error::invalid_session},
      {R"(raft apply failed: key "invalid session ")", error::server_error},
      {"apply failed: leadership lost while committing log", error::server_error},
      {"invalid key name, leading/trailing spaces are not allowed", error::bad_request},
      {"Invalid Session TTL '9000000000', must be between [10s=24h0m0s]", error::invalid_ttl},
      {"Permission denied", error::permission_denied},
      {"rpc error making call: Permission denied", error::permission_denied},
      {"rpc error making call: ACL not found", error::permission_denied},
      {"Permission denied: anonymous token lacks permission 'key:write' on \"p/k\". The anonymous token is used "
       "implicitly when a request does not specify a token.",
       error::permission_denied},
      {"rate limit exceeded, try again later", error::server_error},
      {"rpc error making call: EOF", error::server_error},
      {"No cluster leader", error::server_error},
      {"leadership lost while committing log", error::server_error},
      {R"(rpc error getting client: dial tcp: Permission denied)", error::server_error},
      {R"(failed to apply: key "invalid session ")", error::server_error},
  };
  for (const auto& [text, expected] : texts) {
    BOOST_TEST(meaning(said(500, text)) == expected, text);
    BOOST_TEST(meaning(said(500, text, {})) == expected, text);  // 1.8.7 sends some without any header
  }
}

BOOST_AUTO_TEST_CASE(what_a_limit_refused_was_not_applied) {
  const char* const words[] = {
      "rate limit exceeded for operation that can only be performed by the leader, try again later",
      "rpc error making call: rate limit exceeded, try again later or against a different server",
  };
  for (const char* text : words) {
    for (const unsigned status : {429u, 503u}) {
      const error_code ec = meaning(said(status, text));
      BOOST_TEST(ec == error::too_many_requests);
      BOOST_TEST((ec == condition::not_applied));
    }
  }
  BOOST_TEST(meaning(said(503, "upstream connect error")) == error::server_error);
}

BOOST_AUTO_TEST_CASE(people_are_told_what_has_answered) {
  BOOST_TEST(what_answered(redirection(302, "https://sso.example/login?state=secret")) ==
             "302 to https://sso.example/login, text/html");
  BOOST_TEST(what_answered(said(404, "default backend - 404")) == "404, text/plain");
  BOOST_TEST(what_answered(said(408, {}, {})) == "408");
  BOOST_TEST(what_answered(http_reply()) == "something that is not HTTP");
  BOOST_TEST(what_answered(redirection(302, "https://a\x1b[31m/" + std::string(1000, 'a'))).size() < 600u);

  BOOST_TEST(advice_about(redirection(301, "https://consul.example/v1/kv/k")) ==
             "if that is Consul, its address needs https://");
  BOOST_TEST(advice_about(said(400, "<h1>The plain HTTP request was sent to HTTPS port</h1>", "text/html")) ==
             "the port speaks TLS: the address needs https://");
  BOOST_TEST(advice_about(page(401)) == "a login may be needed: config::http_auth");
  BOOST_TEST(advice_about(page(404)).empty());
}

BOOST_AUTO_TEST_SUITE_END()

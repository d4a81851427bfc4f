// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "testing/api.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::testing;
using namespace holdfast::testing::detail;

namespace {

struct agent {
  store model;
  api consul{model, 1};

  api_reply ask(std::string method, std::string target, std::string body = {}) {
    return consul.handle({std::move(method), std::move(target), std::move(body)}, {}).reply;
  }
};

}  // namespace

// The differential test compares the whole with a real agent. These tests cover what its random requests never are.
BOOST_AUTO_TEST_SUITE(testing_api)

BOOST_FIXTURE_TEST_CASE(json_is_utf8_whatever_the_key, agent) {
  BOOST_TEST(ask("PUT", "/v1/kv/u%ff%e2%82x%ed%a0%80", "x").body == "true");
  BOOST_TEST(ask("PUT", "/v1/kv/v%c3%a9%f0%9f%98%80", "x").body == "true");
  BOOST_TEST(ask("GET", "/v1/kv/?keys").body ==
             "[\"u\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\","
             "\"v\xc3\xa9\xf0\x9f\x98\x80\"]");
  BOOST_TEST(ask("GET", "/v1/kv/u%ff%e2%82x%ed%a0%80?raw").body == "x");
}

BOOST_FIXTURE_TEST_CASE(json_that_is_no_utf8_is_read_as_go_reads_it, agent) {
  const api_reply reply = ask("PUT", "/v1/txn", "[{\"KV\":{\"Verb\":\"get\",\"Key\":\"no\xff\xf4\x90\"}}]");
  BOOST_TEST(reply.status == 409u);
  BOOST_TEST(reply.body.find("\"key \\\"no\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\\\" doesn't exist\"") !=
             std::string::npos);
}

BOOST_FIXTURE_TEST_CASE(paths_are_printable, agent) {
  for (const char* const path : {"/v1/kv/a%0d%0ab", "/v1/kv//%0d%0aX:%20y", "/v1/kv/%00", "/v1/session/renew/%7f"}) {
    const api_reply reply = ask("PUT", path);
    BOOST_TEST(reply.status == 400u);
    BOOST_TEST(reply.body.empty());
  }
  BOOST_TEST(ask("PUT", "/v1/kv/a%20%ff%c3%a9").status == 200u);
  BOOST_TEST(ask("PUT", "/v1/kv/%zz").body == "400 Bad Request");
}

BOOST_FIXTURE_TEST_CASE(a_redirect_is_encoded_and_keeps_its_query, agent) {
  const api_reply reply = ask("GET", "/v1/kv//a%20b%3f%ff%22%25x/../y%20z%3f%ff%22%25x?keys=%0a&x=y");
  BOOST_TEST(reply.status == 301u);
  BOOST_TEST_REQUIRE(reply.headers.size() == 1u);
  BOOST_TEST(reply.headers[0].first == "Location");
  BOOST_TEST(reply.headers[0].second == "/v1/kv/y%20z%3F%FF%22%25x?keys=%0a&x=y");
  BOOST_TEST(ask("GET", "/v1/kv/a/../b/?recurse").headers.at(0).second == "/v1/kv/b/?recurse");
  BOOST_TEST(ask("GET", "/v1/kv/a/./b?raw").headers.at(0).second == "/v1/kv/a/b?raw");
}

BOOST_FIXTURE_TEST_CASE(what_is_not_modelled_of_a_node_is_refused_and_not_ignored, agent) {
  const api_reply reply = ask("PUT", "/v1/catalog/register", R"({"Node":"h","Address":"x","Check":{"Name":"c"}})");
  BOOST_TEST(reply.status == 500u);
  BOOST_TEST(reply.body == "the model of Consul knows no Check of a node");
  BOOST_TEST(ask("PUT", "/v1/catalog/deregister", R"({"Node":"fake","CheckID":"c"})").status == 500u);
  BOOST_TEST(model.nodes().value.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Methods, paths and queries that are wrong, and what is said about them.

#include <string>

#include "conformance/support/fact.hpp"

BOOST_AUTO_TEST_SUITE(http)

FACT(a_wrong_method_is_405_and_says_which_are_allowed) {
  struct {
    const char *method, *path, *allowed;
  } const cases[] = {{"POST", "/v1/kv/a", "OPTIONS,GET,PUT,DELETE"},
                     {"GET", "/v1/txn", "OPTIONS,PUT"},
                     {"POST", "/v1/txn", "OPTIONS,PUT"},
                     {"GET", "/v1/session/create", "OPTIONS,PUT"},
                     {"GET", "/v1/session/destroy/x", "OPTIONS,PUT"},
                     {"GET", "/v1/session/renew/x", "OPTIONS,PUT"},
                     {"PUT", "/v1/session/info/x", "OPTIONS,GET"},
                     {"DELETE", "/v1/session/list", "OPTIONS,GET"},
                     {"PUT", "/v1/status/leader", "OPTIONS,GET"}};
  for (const auto& c : cases) {
    const auto reply = consul.request(c.method, c.path);
    BOOST_TEST(reply.said() == "405 method " + std::string(c.method) + " not allowed");
    BOOST_TEST(reply.header("allow") == c.allowed);
  }
}

FACT(options_answers_with_the_methods) {
  const auto reply = consul.request("OPTIONS", "/v1/kv/a");
  BOOST_TEST(reply.said() == "200 ");
  BOOST_TEST(reply.header("allow") == "OPTIONS,GET,PUT,DELETE");
}

FACT(an_unknown_path_is_404_without_an_index) {
  for (const auto* path : {"/v1/none", "/none", "/v1/session/none", "/v2/kv/a"}) {
    const auto reply = consul.request("GET", path);
    BOOST_TEST(reply.status == 404);
    BOOST_TEST(reply.header("x-consul-index") == "");
  }
}

FACT(a_path_that_lacks_its_slash_is_redirected) {
  for (const std::string path : {"/v1/kv", "/v1/session/info", "/v1/session/node"}) {
    BOOST_TEST(consul.request("GET", path).is_redirection());
    BOOST_TEST(consul.request("GET", path + "?recurse").header("location") == path + "/?recurse");
  }
  BOOST_TEST(consul.request("POST", "/v1/kv").is_redirection());
}

FACT(a_parameter_that_is_given_twice_counts_once) {
  consul.put("a?flags=1&flags=2", "v");
  BOOST_TEST(consul.read("a").flags == 1u);
}

FACT(a_negative_wait_is_none) {
  consul.put("a", "v");
  BOOST_TEST(consul.get("a?wait=-1s&index=1").status == 200);
}

FACT(flags_that_exclude_each_other_are_refused) {
  BOOST_TEST(consul.put("a?cas=1&acquire=x").said() == "400 Conflicting flags: acquire=x&cas=1");
  BOOST_TEST(consul.put("a?release=x&acquire=y").said() == "400 Conflicting flags: acquire=y&release=x");
  BOOST_TEST(consul.put("a?release=x&cas=0&flags=1").said() == "400 Conflicting flags: cas=0&flags=1&release=x");
  BOOST_TEST(consul.del("a?recurse&cas=3").said() == "400 Conflicting flags: cas=3&recurse=");
  BOOST_TEST(!consul.exists("a"));
}

FACT(flags_must_be_a_number_of_64_bits) {
  BOOST_TEST(consul.put("a?flags=-1").said() == "500 strconv.ParseUint: parsing \"-1\": invalid syntax");
  BOOST_TEST(consul.put("a?flags=x").said() == "500 strconv.ParseUint: parsing \"x\": invalid syntax");
  BOOST_TEST(consul.put("a?flags=18446744073709551616").said() ==
             "500 strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
  BOOST_TEST(!consul.exists("a"));
}

FACT(flags_may_not_be_empty) {
  BOOST_TEST(consul.put("a?flags=").said() == "500 strconv.ParseUint: parsing \"\": invalid syntax");
}

FACT(an_index_must_be_a_number) {
  for (const auto* name : {"a?index=x", "a?index=-1", "?recurse&index=x", "?keys&index=1.5"})
    BOOST_TEST(consul.get(name).said() == "400 Invalid index");
  BOOST_TEST(consul.request("GET", "/v1/session/list?index=x").said() == "400 Invalid index");
}

FACT(an_empty_index_is_none) {
  consul.put("a", "v");
  BOOST_TEST(consul.get("a?index=").status == 200);
}

FACT(a_wait_must_be_a_duration) {
  for (const auto* name : {"a?wait=x", "a?index=1&wait=5", "?recurse&index=1&wait=1y"})
    BOOST_TEST(consul.get(name).said() == "400 Invalid wait time");
}

FACT(stale_and_consistent_exclude_each_other) {
  const auto text = "400 Cannot specify ?stale with ?consistent, conflicting semantics.";
  BOOST_TEST(consul.get("a?stale&consistent").said() == text);
  BOOST_TEST(consul.request("GET", "/v1/session/list?stale&consistent").said() == text);
}

FACT(stale_and_consistent_reads_answer_alike_on_a_leader) {
  consul.put("a", "v");
  const auto plain = consul.get("a");
  for (const auto* query : {"a?stale", "a?consistent"}) {
    BOOST_TEST(consul.get(query).json() == plain.json());
    BOOST_TEST(consul.get(query).index() == plain.index());
    BOOST_TEST(consul.get(query).header("x-consul-knownleader") == "true");
  }
}

FACT(another_datacenter_is_refused) {
  BOOST_TEST(consul.get("a?dc=other").said() == "500 No path to datacenter");
  BOOST_TEST(consul.put("a?dc=other").said() == "500 No path to datacenter");
  BOOST_TEST(consul.put("a?dc=dc1", "v").said() == "200 true");
}

FACT(unknown_parameters_are_ignored) {
  BOOST_TEST(consul.put("a?colour=blue", "v").said() == "200 true");
  BOOST_TEST(consul.get("a?raw&colour=blue").said() == "200 v");
}

FACT(a_leader_is_named) {
  const auto reply = consul.request("GET", "/v1/status/leader");
  BOOST_TEST(reply.status == 200);
  BOOST_TEST(!reply.json().as_string().empty());
}

FACT(a_refusal_is_plain_text) {
  for (const auto& reply : {consul.get("a?index=x"), consul.put("a?cas=x"), consul.renew("x"),
                            consul.request("GET", "/v1/txn"), consul.request("PUT", "/v1/txn", "x")})
    BOOST_TEST(reply.header("content-type") == "text/plain; charset=utf-8");
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/reply.hpp"
#include "support/decode.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::consul::detail;
using holdfast::error;
using holdfast::error_code;
using holdfast::consul::txn_reply;

namespace {

http_reply reply_of(unsigned status, std::string body = {}) {
  http_reply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

http_reply indexed(http_reply reply, std::uint64_t index) {
  reply.index = index;
  return reply;
}

const std::string one_entry = R"([{"LockIndex":0,"Key":"k","Flags":0,"Value":"eA==","CreateIndex":1,"ModifyIndex":2}])";
const std::string one_session =
    R"([{"ID":"i","Name":"","Node":"vm","LockDelay":0,"TTL":"10s","CreateIndex":1,"ModifyIndex":1}])";

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_reply)

BOOST_AUTO_TEST_CASE(statuses_mean) {
  BOOST_TEST(!classify(reply_of(200)));
  const std::pair<unsigned, error> statuses[] = {
      {0, error::malformed_reply}, {100, error::malformed_reply},   {204, error::malformed_reply},
      {301, error::bad_request},   {400, error::bad_request},       {403, error::permission_denied},
      {404, error::bad_request},   {405, error::bad_request},       {409, error::bad_request},
      {413, error::too_large},     {429, error::too_many_requests}, {500, error::server_error},
      {503, error::server_error},  {600, error::malformed_reply},
  };
  for (const auto& [status, meaning] : statuses) BOOST_TEST(classify(reply_of(status)) == meaning);
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
  for (const auto& [text, meaning] : texts) BOOST_TEST(classify(reply_of(500, text)) == meaning, text);
  BOOST_TEST(classify(reply_of(400, "Invalid Session TTL '1', must be")) == error::invalid_ttl);
  BOOST_TEST(classify(reply_of(400, "Client sent an HTTP request to an HTTPS server.\n")) == error::plain_http_refused);
}

BOOST_AUTO_TEST_CASE(what_a_limit_refused_was_not_applied) {
  const char* const words[] = {
      "rate limit exceeded for operation that can only be performed by the leader, try again later",
      "rpc error making call: rate limit exceeded, try again later or against a different server",
  };
  for (const char* text : words) {
    for (const unsigned status : {429u, 503u}) {
      const error_code ec = classify(reply_of(status, text));
      BOOST_TEST(ec == error::too_many_requests);
      BOOST_TEST((ec == holdfast::condition::not_applied));
    }
  }
  BOOST_TEST(classify(reply_of(503, "upstream connect error")) == error::server_error);
}

BOOST_AUTO_TEST_CASE(absence_is_an_answer_if_consul_says_it) {
  entry_answer entry;
  BOOST_TEST(!decode_get(indexed(reply_of(404), 19), entry));
  BOOST_TEST(!entry.value.has_value());
  BOOST_TEST(entry.meta.index == 19u);
  BOOST_TEST(decode_get(reply_of(404, "404 page not found"), entry) == error::bad_request);

  entries_answer entries;
  BOOST_TEST(!decode_list(indexed(reply_of(404), 20), entries));
  BOOST_TEST(entries.value.empty());
  BOOST_TEST(entries.meta.index == 20u);
  keys_answer keys;
  BOOST_TEST(!decode_keys(indexed(reply_of(404), 21), keys));
  BOOST_TEST(keys.value.empty());
  session_answer session;
  BOOST_TEST(!decode_session(indexed(reply_of(200, "[]\n"), 22), session));
  BOOST_TEST(!session.value.has_value());
  BOOST_TEST(session.meta.index == 22u);
}

BOOST_AUTO_TEST_CASE(reads_carry_their_meta) {
  http_reply reply = indexed(reply_of(200, one_entry), 7);
  reply.known_leader = false;
  reply.last_contact = std::chrono::milliseconds(30);
  reply.filtered_by_acls = true;
  entry_answer entry;
  BOOST_TEST(!decode_get(reply, entry));
  BOOST_TEST(entry.value.value().value == "x");
  BOOST_TEST((entry.meta ==
              holdfast::consul::query_meta{
                  .index = 7, .known_leader = false, .last_contact = reply.last_contact, .filtered_by_acls = true}));
}

BOOST_AUTO_TEST_CASE(one_key_is_answered_with_one_entry) {
  entry_answer entry;
  BOOST_TEST(decode_get(reply_of(200, "[]"), entry) == error::malformed_reply);
  const std::string inner = one_entry.substr(1, one_entry.size() - 2);
  BOOST_TEST(decode_get(reply_of(200, "[" + inner + "," + inner + "]"), entry) == error::malformed_reply);
  entries_answer entries;
  BOOST_TEST(!decode_list(reply_of(200, "[" + inner + "," + inner + "]"), entries));
  BOOST_TEST(entries.value.size() == 2u);
}

BOOST_AUTO_TEST_CASE(writes_say_true_or_false) {
  bool out = false;
  BOOST_TEST(!decode_write(reply_of(200, "true\n"), out));
  BOOST_TEST(out);
  BOOST_TEST(!decode_write(reply_of(200, "false"), out));
  BOOST_TEST(!out);
  for (const char* body : {"", "1", "true true", "TRUE", "[true]"}) {
    BOOST_TEST(decode_write(reply_of(200, body), out) == error::malformed_reply);
  }
}

BOOST_AUTO_TEST_CASE(sessions_end_only_by_consuls_word) {
  BOOST_TEST(decode_session_renew(reply_of(404, "Session id 'x' not found")) == error::invalid_session);
  BOOST_TEST(decode_session_renew(reply_of(404, "404 page not found")) == error::bad_request);
  BOOST_TEST(!decode_session_renew(reply_of(200, one_session)));
  BOOST_TEST(decode_session_renew(reply_of(200, "[]")) == error::malformed_reply);
  BOOST_TEST(!decode_confirmation(reply_of(200, "true")));
  BOOST_TEST(decode_confirmation(reply_of(200, "false")) == error::malformed_reply);
  std::string id;
  BOOST_TEST(!decode_session_create(reply_of(200, R"({"ID":"i"})"), id));
  BOOST_TEST(id == "i");
}

BOOST_AUTO_TEST_CASE(a_transactions_status_and_body_must_agree) {
  txn_reply out;
  const std::string applied = R"({"Results":[],"Errors":null})";
  const std::string refused = R"({"Results":null,"Errors":[{"OpIndex":0,"What":"Permission denied"}]})";
  BOOST_TEST(!decode_txn(reply_of(200, applied), 1, out));
  BOOST_TEST(out.applied);
  BOOST_TEST(!decode_txn(reply_of(409, refused), 1, out));
  BOOST_TEST(!out.applied);
  BOOST_TEST((out.errors.at(0).reason == holdfast::consul::txn_refusal::permission_denied));
  BOOST_TEST(decode_txn(reply_of(200, refused), 1, out) == error::malformed_reply);
  BOOST_TEST(decode_txn(reply_of(409, applied), 1, out) == error::malformed_reply);
  BOOST_TEST(decode_txn(reply_of(409, "conflict"), 1, out) == error::malformed_reply);
  BOOST_TEST(decode_txn(reply_of(500, "rpc error making call: EOF"), 1, out) == error::server_error);
}

BOOST_AUTO_TEST_CASE(server_texts_become_readable) {
  BOOST_TEST(readable("no\tway\x1b[31m\n") == "no way [31m");
  BOOST_TEST(readable(std::string(2000, 'x')).size() == 512u);
  BOOST_TEST(readable("").empty());
}

BOOST_AUTO_TEST_SUITE_END()

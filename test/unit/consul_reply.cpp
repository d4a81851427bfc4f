// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/reply.hpp"
#include "support/decode.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::consul::detail;
using holdfast::error;
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

BOOST_AUTO_TEST_CASE(absence_is_an_answer_if_consul_says_it) {
  entry_answer entry;
  BOOST_TEST(!decode_get(indexed(reply_of(404), 19), entry));
  BOOST_TEST(!entry.value.has_value());
  BOOST_TEST(entry.meta.index == 19u);

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

BOOST_AUTO_TEST_CASE(replies_about_sessions_are_decoded) {
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
}

BOOST_AUTO_TEST_CASE(server_texts_become_readable) {
  BOOST_TEST(readable("no\tway\x1b[31m\n") == "no way [31m");
  BOOST_TEST(readable(std::string(2000, 'x')).size() == 512u);
  BOOST_TEST(readable("").empty());
}

BOOST_AUTO_TEST_SUITE_END()

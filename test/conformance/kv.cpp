// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Single keys: what is put, read and deleted, and how keys are written in a URL.

#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::entry;
using holdfast::test::op;

BOOST_AUTO_TEST_SUITE(kv)

FACT(what_was_put_is_read_back) {
  BOOST_TEST(consul.put("a", "v").said() == "200 true");
  const entry a = consul.read("a");
  BOOST_TEST(a.key == "a");
  BOOST_TEST(a.value == base64("v"));
}

FACT(a_missing_key_is_an_empty_404_with_an_index) {
  const auto reply = consul.get("a");
  BOOST_TEST(reply.said() == "404 ");
  BOOST_TEST(reply.index() > 0u);
  BOOST_TEST(reply.header("x-consul-knownleader") == "true");
}

FACT(a_read_says_its_index_and_that_there_is_a_leader) {
  consul.put("a", "v");
  const auto reply = consul.get("a");
  BOOST_TEST(reply.header("content-type") == "application/json");
  BOOST_TEST(reply.index() > 0u);
  BOOST_TEST(reply.header("x-consul-knownleader") == "true");
  BOOST_TEST(reply.header("x-consul-lastcontact") == "0");
}

FACT(a_write_says_no_index) {
  const auto reply = consul.put("a", "v");
  BOOST_TEST(reply.header("content-type") == "application/json");
  BOOST_TEST(reply.header("x-consul-index") == "");
}

FACT(a_raw_read_is_the_value_itself_as_sandboxed_text) {
  consul.put("a", "some\nvalue\n");
  const auto reply = consul.get("a?raw");
  BOOST_TEST(reply.body == "some\nvalue\n");
  BOOST_TEST(reply.header("content-type").starts_with("text/plain"));
  BOOST_TEST(reply.header("x-content-type-options") == "nosniff");
  BOOST_TEST(reply.header("content-security-policy") == "sandbox");
  BOOST_TEST(reply.index() == consul.index("a"));
}

FACT(a_raw_read_of_a_missing_key_is_404) { BOOST_TEST(consul.get("a?raw").said() == "404 "); }

FACT(an_empty_value_is_null_in_json_and_nothing_in_raw) {
  BOOST_TEST(consul.put("a").said() == "200 true");
  BOOST_TEST(consul.get("a").json().at(0).at("Value").is_null());
  BOOST_TEST(consul.get("a?raw").said() == "200 ");
}

FACT(a_value_may_hold_any_byte) {
  std::string bytes;
  for (int c = 255; c >= 0; --c) bytes += static_cast<char>(c);
  consul.put("a", bytes);
  BOOST_TEST(consul.get("a?raw").body == bytes);
  BOOST_TEST(consul.read("a").value == base64(bytes));
}

FACT(an_entry_that_is_not_locked_has_no_session_member) {
  consul.put("a", "v");
  const auto json = consul.get("a").json().at(0);
  BOOST_TEST(!json.as_object().contains("Session"));
  BOOST_TEST(json.as_object().size() == 6u);
}

FACT(flags_are_zero_unless_given) {
  consul.put("a", "v");
  BOOST_TEST(consul.read("a").flags == 0u);
}

FACT(flags_are_an_unsigned_number_of_64_bits) {
  consul.put("a?flags=16210313421097356768", "v");
  BOOST_TEST(consul.read("a").flags == 16210313421097356768u);
  consul.put("a?flags=18446744073709551615", "v");
  BOOST_TEST(consul.read("a").flags == 18446744073709551615u);
}

FACT(a_put_without_flags_resets_them) {
  consul.put("a?flags=7", "v");
  consul.put("a", "v");
  BOOST_TEST(consul.read("a").flags == 0u);
}

FACT(a_delete_is_true) {
  consul.put("a", "v");
  BOOST_TEST(consul.del("a").said() == "200 true");
  BOOST_TEST(consul.get("a").status == 404);
}

FACT(deleting_a_missing_key_is_true_as_well) { BOOST_TEST(consul.del("a").said() == "200 true"); }

FACT(a_delete_takes_only_the_key_of_exactly_that_name) {
  consul.put("a", "1");
  consul.put("a/b", "2");
  consul.put("ab", "3");
  consul.del("a");
  BOOST_TEST(consul.keys("") == "a/b ab");
}

FACT(a_recursive_delete_takes_all_that_begins_so) {
  for (const auto* name : {"a", "a/b", "ab", "b"}) consul.put(name, "v");
  BOOST_TEST(consul.del("a?recurse").said() == "200 true");
  BOOST_TEST(consul.keys("") == "b");
}

FACT(a_recursive_delete_of_nothing_is_true) { BOOST_TEST(consul.del("a?recurse").said() == "200 true"); }

FACT(a_key_may_be_percent_encoded) {
  consul.put("%61%20b%3Fc%23d%25e", "v");
  BOOST_TEST(consul.read("a%20b%3fc%23d%25e").key == "a b?c#d%e");
}

FACT(an_encoded_slash_is_a_slash) {
  consul.put("a%2Fb", "v");
  BOOST_TEST(consul.read("a/b").key == "a/b");
}

FACT(a_plus_in_a_key_is_a_plus) {
  consul.put("a+b", "v");
  BOOST_TEST(consul.read("a%2Bb").key == "a+b");
  BOOST_TEST(!consul.exists("a%20b"));
}

FACT(a_key_may_have_any_letters) {
  consul.put("%C3%A9/%E6%97%A5", "v");
  BOOST_TEST(consul.read("%C3%A9/%E6%97%A5").key == "\u00e9/\u65e5");
}

FACT(a_key_may_hold_quotes_and_angle_brackets) {
  consul.put("%22a%22%3Cb%3E%26%5C", "v");
  BOOST_TEST(consul.read("%22a%22%3Cb%3E%26%5C").key == "\"a\"<b>&\\");
}

FACT(keys_differ_by_case_and_by_a_slash_at_the_end) {
  for (const auto* name : {"a", "A", "a/"}) consul.put(name, name);
  for (const auto* name : {"a", "A", "a/"}) BOOST_TEST(consul.read(name).value == base64(name));
}

FACT(two_slashes_in_a_row_are_redirected_to_one) {
  for (const auto* method : {"GET", "PUT", "DELETE"}) {
    const auto reply = consul.request(method, "/v1/kv/" + consul.prefix() + "a//b");
    BOOST_TEST(reply.is_redirection());
    BOOST_TEST(reply.header("location") == "/v1/kv/" + consul.prefix() + "a/b");
  }
  BOOST_TEST(!consul.exists("a/b"));
}

FACT(a_slash_at_the_beginning_is_redirected_away) {
  const auto reply = consul.request("GET", "/v1/kv//" + consul.prefix() + "a");
  BOOST_TEST(reply.is_redirection());
  BOOST_TEST(reply.header("location") == "/v1/kv/" + consul.prefix() + "a");
}

FACT(an_encoded_slash_at_the_beginning_is_redirected_too_or_from_1_20_on_a_part_of_the_key) {
  const auto target = "/v1/kv/%2F" + consul.prefix() + "a";
  const auto reply = consul.request("GET", target);
  if (consul.is_from(20)) {
    BOOST_TEST(reply.said() == "404 ");
    BOOST_TEST(consul.request("PUT", target, "v").said() == "200 true");
    BOOST_TEST(consul.request("GET", target).first().key == "/" + consul.prefix() + "a");
    BOOST_TEST(consul.request("DELETE", target).said() == "200 true");
  } else {
    BOOST_TEST(reply.is_redirection());
    BOOST_TEST(reply.header("location") == "/v1/kv/" + consul.prefix() + "a");
  }
}

FACT(a_key_with_blanks_at_an_end_is_refused_from_1_22_on_but_not_in_a_transaction) {
  for (const auto* method : {"GET", "PUT", "DELETE"}) {
    const auto reply = consul.request(method, "/v1/kv/" + consul.prefix() + "a%20");
    if (consul.is_from(22)) {
      BOOST_TEST(reply.said() == "500 invalid key name, leading/trailing spaces are not allowed");
    } else {
      BOOST_TEST(reply.status != 500);
    }
  }
  BOOST_TEST(consul.txn({op("set", "a ").value("v")}).status == 200);
  BOOST_TEST(consul.keys("") == "a ");
}

FACT(segments_of_dots_are_redirected_to_where_they_lead) {
  BOOST_TEST(consul.get("a/./b").header("location") == "/v1/kv/" + consul.prefix() + "a/b");
  BOOST_TEST(consul.get("a/../b").header("location") == "/v1/kv/" + consul.prefix() + "b");
  BOOST_TEST(consul.get("a/../b").is_redirection());
}

FACT(a_redirection_keeps_the_query) {
  BOOST_TEST(consul.get("a//b?recurse&stale").header("location") == "/v1/kv/" + consul.prefix() + "a/b?recurse&stale");
}

FACT(dots_within_a_segment_are_just_dots) {
  consul.put("..a/.b/c..", "v");
  BOOST_TEST(consul.read("..a/.b/c..").key == "..a/.b/c..");
}

FACT(the_empty_key_is_refused) {
  for (const auto* method : {"GET", "PUT", "DELETE"})
    BOOST_TEST(consul.request(method, "/v1/kv/").complaint() == "400 Missing key name");
}

BOOST_AUTO_TEST_SUITE_END()

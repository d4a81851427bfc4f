// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/json.hpp"
#include "support/decode.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>

using namespace holdfast::consul;
using namespace holdfast::consul::detail;
using holdfast::error;
using holdfast::error_code;

BOOST_AUTO_TEST_SUITE(consul_json)

namespace {

const std::string entry_text =
    R"({"LockIndex":2,"Key":"a/b","Flags":16210313421097356768,"Value":"AP94","Session":"s-1",)"
    R"("CreateIndex":18446744073709551615,"ModifyIndex":9223372036854775808})";

const kv_entry entry_value{.key = "a/b",
                           .value = std::string("\0\xffx", 3),
                           .flags = 16210313421097356768u,
                           .session = "s-1",
                           .create_index = 18446744073709551615u,
                           .modify_index = 9223372036854775808u,
                           .lock_index = 2};

const std::string session_text =
    R"([{"ID":"id-1","Name":"n","Node":"vm","LockDelay":1500000000,"Behavior":"delete","TTL":"15000ms",)"
    R"("NodeChecks":["serfHealth"],"ServiceChecks":null,"CreateIndex":15,"ModifyIndex":16}])";

const std::string refused_text =
    R"({"Results":null,"Errors":[{"OpIndex":1,"What":"failed to set key \"t/a\", index is stale"}]})";

using parser = std::function<error_code(std::string_view)>;

const parser entries = [](std::string_view body) {
  std::vector<kv_entry> out;
  return parse_entries(body, out);
};
const parser keys = [](std::string_view body) {
  std::vector<std::string> out;
  return parse_keys(body, out);
};
const parser session_id = [](std::string_view body) {
  std::string out;
  return parse_session_id(body, out);
};
const parser sessions = [](std::string_view body) {
  std::vector<session_info> out;
  return parse_sessions(body, out);
};
const parser txn = [](std::string_view body) {
  txn_reply out;
  return parse_txn(body, 2, out);
};

void check_malformed(const parser& parse, const std::string& body) {
  BOOST_TEST(parse(body) == error::malformed_reply, "accepted " << body.substr(0, 300));
}

// Every incomplete text is an error, and does no harm.
void check_truncations(const parser& parse, const std::string& body) {
  BOOST_TEST(!parse(body));
  for (std::size_t size = 0; size < body.size(); ++size) check_malformed(parse, body.substr(0, size));
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

}  // namespace

BOOST_AUTO_TEST_CASE(entries_keep_binary_values_and_all_64_bits) {
  std::vector<kv_entry> out(3, entry_value);
  BOOST_TEST_REQUIRE(!parse_entries("[" + entry_text + "," + entry_text + "]\n", out));
  BOOST_TEST_REQUIRE(out.size() == 2u);
  BOOST_TEST((out[0] == entry_value));
  BOOST_TEST((out[1] == entry_value));
}

BOOST_AUTO_TEST_CASE(an_entry_may_lack_value_and_session) {
  for (const std::string value : {"", R"("Value":null,)", R"("Value":"","Session":"",)", R"("Session":null,)"}) {
    std::vector<kv_entry> out;
    const auto body =
        R"([{"Unknown":[{}],)" + value + R"("LockIndex":0,"Key":"k","Flags":0,"CreateIndex":1,"ModifyIndex":2}])";
    BOOST_TEST_REQUIRE(!parse_entries(body, out));
    BOOST_TEST(out.at(0).value.empty());
    BOOST_TEST(out.at(0).session.empty());
  }
}

BOOST_AUTO_TEST_CASE(an_entry_must_have_its_key_and_its_numbers) {
  for (const char* name : {"Key", "Flags", "LockIndex", "CreateIndex", "ModifyIndex"}) {
    const auto lacking = replaced(entry_text, name, "Other");
    check_malformed(entries, "[" + lacking + "]");
    check_malformed(entries, "[" + entry_text + "," + lacking + "]");
  }
}

BOOST_AUTO_TEST_CASE(numbers_are_unsigned_64_bit_or_refused) {
  for (const char* number : {"-1", "1.0", "1e3", "18446744073709551616", "\"2\"", "null", "true", "[2]", "{}", "02"}) {
    check_malformed(entries,
                    "[" + replaced(entry_text, R"("LockIndex":2)", std::string(R"("LockIndex":)") + number) + "]");
  }
}

BOOST_AUTO_TEST_CASE(wrong_types_and_values_are_refused) {
  check_malformed(entries, "[" + replaced(entry_text, R"("a/b")", "7") + "]");
  check_malformed(entries, "[" + replaced(entry_text, R"("s-1")", "{}") + "]");
  check_malformed(entries, "[" + replaced(entry_text, R"("AP94")", R"("AP9")") + "]");
  check_malformed(entries, "[" + replaced(entry_text, R"("AP94")", "5") + "]");
  check_malformed(entries, "[" + replaced(entry_text, R"("a/b")", "\"\xff\"") + "]");
  for (const char* body : {"", " ", "{}", "null", "7", "[7]", "[null]", "[[]]", "[{}]", "[] []", "[]x", "nul"}) {
    check_malformed(entries, body);
  }
  BOOST_TEST(!entries("[]"));
  BOOST_TEST(!entries(" [ ] \r\n"));
}

BOOST_AUTO_TEST_CASE(escapes_anywhere_are_read) {
  // Longer than any buffer of the parser.
  const std::string name(10'000, 'n');
  std::vector<kv_entry> out;
  BOOST_TEST_REQUIRE(
      !parse_entries(R"([{"K\u0065y":"\u0061/\"\\\n\ud83d\ude00)" + name + R"(\/","V\u0061lue":"AP\u00394",)" +
                         R"("Sess\u0069on":"s\t1","Flags":1,"LockIndex":2,"CreateIndex":3,"ModifyIndex":4}])",
                     out));
  BOOST_TEST(out.at(0).key == "a/\"\\\n\xf0\x9f\x98\x80" + name + "/");
  BOOST_TEST(out.at(0).value == std::string("\0\xffx", 3));
  BOOST_TEST(out.at(0).session == "s\t1");
  check_malformed(entries, "[" + replaced(entry_text, R"("Value":"AP94")", R"("Value":"AP\n4")") + "]");
}

BOOST_AUTO_TEST_CASE(of_a_member_that_comes_twice_the_last_one_counts) {
  std::vector<kv_entry> out;
  const auto twice = replaced(entry_text, "}", R"(,"Key":"other","Flags":1,"Session":null,"Value":null})");
  BOOST_TEST_REQUIRE(!parse_entries("[" + twice + "," + entry_text + "]", out));
  BOOST_TEST(out.at(0).key == "other");
  BOOST_TEST(out.at(0).flags == 1u);
  BOOST_TEST(out.at(0).session == "");
  BOOST_TEST(out.at(0).value == "");
  BOOST_TEST((out.at(1) == entry_value));

  txn_reply reply;
  const std::string kv = R"("KV":)" + entry_text;
  BOOST_TEST_REQUIRE(!parse_txn(R"({"Results":[{"KV":)" + twice + "," + kv + R"(}],"Errors":null})", 1, reply));
  BOOST_TEST((reply.results == std::vector<kv_entry>{entry_value}));
  BOOST_TEST_REQUIRE(!parse_txn(
      R"({"Results":[{)" + kv + R"(}],"Errors":[{"OpIndex":0,"What":"x"}],)" + R"("Results":[],"Errors":null})", 1,
      reply));
  BOOST_TEST(reply.applied);
  BOOST_TEST(reply.results.empty());
  BOOST_TEST_REQUIRE(!parse_txn(R"({"Results":[{)" + kv + "," + replaced(kv, "Session", "Other") + "}]}", 1, reply));
  BOOST_TEST(reply.results.at(0).session == "");
  check_malformed(txn, R"({"Results":[{)" + kv + R"(},{}]})");
  check_malformed(txn, R"({"Errors":[{"OpIndex":0,"What":"x"},{"OpIndex":0}]})");
  // An entry that begins again is another entry.
  check_malformed(txn, R"({"Results":[{)" + kv + R"(,"KV":{"Key":"k"}}]})");
}

BOOST_AUTO_TEST_CASE(unknown_members_may_be_anything) {
  // Members are skipped even if they would have a meaning, or would be wrong, one level higher.
  const std::string inner = R"("Key":-1,"KV":{"Key":7},"Results":0,"Errors":[{"What":{}}],"Flags":1.5)";
  for (const std::string& value :
       {"{" + inner + "}", "[{" + inner + "},[[]],{}]", std::string("null"), std::string("-1"), std::string("1e3"),
        std::string(R"("a\nb")"), std::string(R"({"a\nb":["c\n"]})"), std::string("true")}) {
    const auto unknown = R"("Unknown":)" + value;
    std::vector<kv_entry> out;
    for (const auto& text :
         {replaced(entry_text, "{", "{" + unknown + ","), replaced(entry_text, "}", "," + unknown + "}"),
          replaced(entry_text, R"("Flags")", unknown + R"(,"Flags")")}) {
      BOOST_TEST_REQUIRE(!parse_entries("[" + text + "," + text + "]", out), value);
      BOOST_TEST((out == std::vector<kv_entry>{entry_value, entry_value}));
    }
    txn_reply reply;
    const auto body = "{" + unknown + R"(,"Results":[{)" + unknown + R"(,"KV":)" + entry_text + "," + unknown + "}]," +
                      unknown + R"(,"Errors":[{)" + unknown + R"(,"OpIndex":0,"What":"w",)" + unknown + "}]}";
    BOOST_TEST_REQUIRE(!parse_txn(body, 1, reply), body);
    BOOST_TEST((reply.results == std::vector<kv_entry>{entry_value}));
    BOOST_TEST((reply.errors == std::vector<txn_error>{{0, txn_refusal::other, "w"}}));
  }
  // A member has its meaning in its own place only.
  const auto misplaced = replaced(entry_text, "{", R"({"KV":0,"Results":[{}],"Errors":{},"What":1,"OpIndex":null,)");
  BOOST_TEST(!entries("[" + misplaced + "]"));
  check_malformed(entries, R"([{"KV":)" + entry_text + "}]");
  check_malformed(txn, R"({"Results":[)" + entry_text + "]}");
}

BOOST_AUTO_TEST_CASE(depth_is_bounded) {
  const std::size_t deep = 1'000'000;
  check_malformed(entries, std::string(deep, '['));
  check_malformed(entries, std::string(deep, '[') + std::string(deep, ']'));
  const auto nested = [](std::size_t depth) {
    return "[" + replaced(entry_text, "}", R"(,"Unknown":)" + std::string(depth, '[') + std::string(depth, ']') + "}") +
           "]";
  };
  BOOST_TEST(!entries(nested(depth_max - 2)));
  check_malformed(entries, nested(depth_max - 1));
  check_malformed(session_id,
                  R"({"ID":"id-1","Unknown":)" + std::string(depth_max, '[') + std::string(depth_max, ']') + "}");
}

BOOST_AUTO_TEST_CASE(memory_is_taken_for_what_was_checked) {
  std::string zeros = "[0";
  for (int i = 1; i < 100'000; ++i) zeros += ",0";
  zeros += ']';
  std::vector<kv_entry> out;
  BOOST_TEST(parse_entries(zeros, out) == error::malformed_reply);
  BOOST_TEST(out.capacity() <= 1024u);
  std::vector<session_info> info;
  BOOST_TEST(parse_sessions(zeros, info) == error::malformed_reply);
  BOOST_TEST(info.capacity() <= 1024u);
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_bounded) {
  const std::string empty_names = R"(["","","","","","","",""])";
  std::vector<std::string> names;
  BOOST_TEST(!parse_keys(empty_names, names, 8 * sizeof(std::string)));
  BOOST_TEST(parse_keys(empty_names, names, 8 * sizeof(std::string) - 1) == error::reply_too_large);
  BOOST_TEST(!parse_keys("[\"" + std::string(1000, 'x') + "\"]", names, sizeof(std::string)), "texts do not count");

  const std::string two = "[" + entry_text + "," + entry_text + "]";
  std::vector<kv_entry> listing;
  BOOST_TEST(!parse_entries(two, listing, 2 * sizeof(kv_entry)));
  BOOST_TEST(parse_entries(two, listing, 2 * sizeof(kv_entry) - 1) == error::reply_too_large);

  http_reply reply;
  reply.status = 409;
  reply.body = R"({"Errors":[{"OpIndex":0,"What":""},{"OpIndex":0,"What":""}]})";
  txn_reply txn;
  reply.kept_max = 2 * sizeof(txn_error);
  BOOST_TEST(!decode_txn(reply, 1, txn));
  --reply.kept_max;
  BOOST_TEST(decode_txn(reply, 1, txn) == error::reply_too_large);
}

BOOST_AUTO_TEST_CASE(a_tree_is_made_of_short_texts_only) {
  const std::string longest = '[' + std::string(tree_text_max - 2, ' ') + ']';
  BOOST_TEST(!sessions(longest));
  BOOST_TEST(sessions(' ' + longest) == error::reply_too_large);
  BOOST_TEST(session_id(' ' + longest) == error::reply_too_large);
  std::optional<catalog_node> node;
  BOOST_TEST(parse_node(' ' + longest, node) == error::reply_too_large);
}

BOOST_AUTO_TEST_CASE(key_lists) {
  std::vector<std::string> out;
  BOOST_TEST_REQUIRE(!parse_keys(R"(["a/","a/\u00e9\n"])", out));
  BOOST_TEST(out == (std::vector<std::string>{"a/", "a/\xc3\xa9\n"}), boost::test_tools::per_element());
  for (const char* body : {"", "{}", "[1]", "[null]", R"(["a")", R"("a")"}) check_malformed(keys, body);
}

BOOST_AUTO_TEST_CASE(session_ids) {
  std::string out;
  BOOST_TEST(!parse_session_id(R"({"ID":"id-1"})", out));
  BOOST_TEST(out == "id-1");
  for (const char* body : {"", "[]", "{}", R"({"ID":""})", R"({"ID":5})", R"({"id":"x"})"}) {
    check_malformed(session_id, body);
  }
}

BOOST_AUTO_TEST_CASE(session_descriptions) {
  std::vector<session_info> out;
  BOOST_TEST_REQUIRE(!parse_sessions(session_text, out));
  const session_info& s = out.at(0);
  BOOST_TEST(s.id == "id-1");
  BOOST_TEST(s.name == "n");
  BOOST_TEST(s.node == "vm");
  BOOST_TEST(s.ttl.count() == 15'000'000'000);
  BOOST_TEST(s.lock_delay.count() == 1'500'000'000);
  BOOST_TEST((s.behavior == session_behavior::remove));
  BOOST_TEST(s.node_checks == std::vector<std::string>{"serfHealth"}, boost::test_tools::per_element());
  BOOST_TEST(s.create_index == 15u);
  BOOST_TEST(s.modify_index == 16u);

  BOOST_TEST(!sessions("[]"));
  BOOST_TEST(!sessions(replaced(session_text, R"(["serfHealth"])", "null")));
  BOOST_TEST(!sessions(replaced(session_text, R"("15000ms")", R"("")")));
  check_malformed(sessions, replaced(session_text, R"("15000ms")", R"("soon")"));
  check_malformed(sessions, replaced(session_text, R"("delete")", R"("keep")"));
  check_malformed(sessions, replaced(session_text, R"("serfHealth")", "1"));
  check_malformed(sessions, replaced(session_text, "1500000000", "9223372036854775808"));
  check_malformed(sessions, replaced(session_text, "\"ID\"", "\"Id\""));
}

BOOST_AUTO_TEST_CASE(nodes_of_the_catalog) {
  const std::string text =
      R"({"Node":{"ID":"","Node":"n","Address":"127.0.0.1","Meta":null,"CreateIndex":13,"ModifyIndex":20},"Services":{}})";
  std::optional<catalog_node> out;
  BOOST_TEST_REQUIRE(!parse_node(text, out));
  BOOST_TEST_REQUIRE(out.has_value());
  BOOST_TEST(out->name == "n");
  BOOST_TEST(out->address == "127.0.0.1");
  BOOST_TEST(out->create_index == 13u);
  BOOST_TEST(out->modify_index == 20u);
  BOOST_TEST(!parse_node("null\n", out));  // there is none, or the token may not read it
  BOOST_TEST(!out.has_value());
  for (const char* const wrong :
       {"", "{}", "[]", R"({"Node":null})", R"({"Node":{"Node":"n","CreateIndex":0,"ModifyIndex":1}})",
        R"({"Node":{"Node":"n","CreateIndex":-1,"ModifyIndex":1}})",
        R"({"Node":{"Node":"","CreateIndex":1,"ModifyIndex":1}})"})
    BOOST_TEST(parse_node(wrong, out) == error::malformed_reply, wrong);
}

BOOST_AUTO_TEST_CASE(applied_transactions) {
  txn_reply out;
  BOOST_TEST_REQUIRE(!parse_txn(R"({"Results":[{"KV":)" + entry_text + R"(}],"Errors":null,"Index":0})", 1, out));
  BOOST_TEST(out.applied);
  BOOST_TEST((out.results.at(0) == entry_value));
  BOOST_TEST(!parse_txn(R"({"Results":[],"Errors":[]})", 1, out));
  BOOST_TEST(out.applied);
  BOOST_TEST(out.results.empty());
}

BOOST_AUTO_TEST_CASE(refused_transactions) {
  txn_reply out;
  BOOST_TEST_REQUIRE(!parse_txn(refused_text, 2, out));
  BOOST_TEST(!out.applied);
  const txn_error expected{1, txn_refusal::conflict, R"(failed to set key "t/a", index is stale)"};
  BOOST_TEST((out.errors == std::vector<txn_error>{expected}));
  BOOST_TEST(parse_txn(refused_text, 1, out) == error::malformed_reply, "names an operation that was not there");
}

BOOST_AUTO_TEST_CASE(malformed_transactions) {
  for (const char* body : {"",
                           "[]",
                           "null",
                           R"({"Results":{}})",
                           R"({"Results":[null]})",
                           R"({"Results":[{}]})",
                           R"({"Results":[{"KV":null}]})",
                           R"({"Results":[{"Node":{}}]})",
                           R"({"Errors":[{}]})",
                           R"({"Errors":"no"})",
                           R"({"Errors":[{"OpIndex":-1,"What":"x"}]})",
                           R"({"Errors":[{"OpIndex":0}]})",
                           R"({"Errors":[{"OpIndex":0,"What":null}]})",
                           R"({"Results":[[]]})",
                           R"({"Results":[7]})",
                           R"({"Results":[{"KV":[]}]})",
                           R"([{}])",
                           R"({"Errors":[{"OpIndex":[],"What":""}]})",
                           R"({"Errors":[null]})",
                           R"({}{})",
                           R"({)"}) {
    check_malformed(txn, body);
  }
}

BOOST_AUTO_TEST_CASE(truncations_anywhere_are_errors) {
  check_truncations(entries, "[" + entry_text + "]");
  check_truncations(keys, R"(["a/","b\u0041"])");
  check_truncations(session_id, R"({"ID":"id-1"})");
  check_truncations(sessions, session_text);
  check_truncations(txn, R"({"Results":[{"KV":)" + entry_text + R"(}],"Errors":null})");
  check_truncations(txn, refused_text);
}

BOOST_AUTO_TEST_CASE(any_damaged_byte_is_survived) {
  for (const auto& [parse, body] :
       {std::pair(entries, "[" + entry_text + "]"), std::pair(sessions, session_text), std::pair(txn, refused_text)}) {
    for (std::size_t i = 0; i < body.size(); ++i) {
      for (const char c : {'\0', '"', '[', '}', '\\', '9', '\xff'}) {
        std::string damaged = body;
        damaged[i] = c;
        const error_code ec = parse(damaged);
        BOOST_TEST((!ec || ec == error::malformed_reply));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(refusals_are_told_by_consuls_sentences) {
  const std::pair<std::string_view, txn_refusal> texts[] = {
      {R"(failed to set key "k", index is stale)", txn_refusal::conflict},
      {R"(failed to delete key "k", index is stale)", txn_refusal::conflict},
      {R"(failed index check for key "k", current modify index 33 != 3)", txn_refusal::conflict},
      {R"(failed session check for key "k", current session "" != "x")", txn_refusal::conflict},
      {R"(failed to unlock key "k", lock isn't held, or is held by another session)", txn_refusal::conflict},
      {R"(key "k" exists)", txn_refusal::conflict},
      {R"(failed to lock key "k", lock is already held)", txn_refusal::lock_held},
      {R"(failed to lock key "k" due to lock delay)", txn_refusal::lock_delay},
      {R"(invalid session "00000000-0000-0000-0000-000000000000")", txn_refusal::invalid_session},
      {"failed session lookup: index error: UUID must be 36 characters", txn_refusal::invalid_session},
      {R"(key "k" doesn't exist)", txn_refusal::missing_key},
      {R"(failed to check index, key "k" doesn't exist)", txn_refusal::missing_key},
      {R"(failed to check session, key "k" doesn't exist)", txn_refusal::missing_key},
      {"Permission denied", txn_refusal::permission_denied},
      {"Permission denied: anonymous token lacks permission 'key:write' on \"k\".", txn_refusal::permission_denied},
      {"missing session", txn_refusal::other},
      {"", txn_refusal::other},
      {R"(failed to set key ", lock is already held", index is stale)", txn_refusal::conflict},
      {R"(failed to lock key "k exists", lock is already held)", txn_refusal::lock_held},
  };
  for (const auto& [text, meaning] : texts) {
    BOOST_TEST((refusal_of(text) == meaning), text << " is " << static_cast<int>(refusal_of(text)));
  }
}

BOOST_AUTO_TEST_CASE(transactions_are_written_without_empty_fields) {
  BOOST_TEST(write_txn({}) == "[]");
  BOOST_TEST(write_txn({txn_operation::cas("a\"\n", std::string("\0\xffx", 3), 0, 16210313421097356768u),
                        txn_operation::lock("k", "", "s")}) ==
             R"([{"KV":{"Verb":"cas","Key":"a\"\n","Value":"AP94","Flags":16210313421097356768}},)"
             R"({"KV":{"Verb":"lock","Key":"k","Session":"s"}}])");
  BOOST_TEST(write_txn({txn_operation::get("\x01\x1f")}) == R"([{"KV":{"Verb":"get","Key":"\u0001\u001f"}}])");
  BOOST_TEST(write_txn({txn_operation::get("a\\b")}) == R"([{"KV":{"Verb":"get","Key":"a\\b"}}])");
  BOOST_TEST(write_txn({txn_operation::get(" /~\x7f\xc3\xa9")}) ==
             "[{\"KV\":{\"Verb\":\"get\",\"Key\":\" /~\x7f\xc3\xa9\"}}]");
  const std::pair<txn_operation, std::string> verbs[] = {
      {txn_operation::set("k", ""), "set"},
      {txn_operation::unlock("k", "", ""), "unlock"},
      {txn_operation::get("k"), "get"},
      {txn_operation::get_tree("k"), "get-tree"},
      {txn_operation::check_session("k", ""), "check-session"},
      {txn_operation::check_not_exists("k"), "check-not-exists"},
      {txn_operation::remove("k"), "delete"},
      {txn_operation::remove_tree("k"), "delete-tree"},
  };
  for (const auto& [operation, verb] : verbs) {
    BOOST_TEST(write_txn({operation}) == R"([{"KV":{"Verb":")" + verb + R"(","Key":"k"}}])");
  }
  BOOST_TEST(write_txn({txn_operation::check_index("k", 7)}) ==
             R"([{"KV":{"Verb":"check-index","Key":"k","Index":7}}])");
  BOOST_TEST(write_txn({txn_operation::remove_cas("k", 7)}) == R"([{"KV":{"Verb":"delete-cas","Key":"k","Index":7}}])");
}

BOOST_AUTO_TEST_CASE(sessions_are_written_with_exact_durations) {
  session_options options;
  BOOST_TEST(write_session(options) == R"({"LockDelay":"15000ms","Behavior":"release","TTL":"15000ms"})");
  options = {.name = "a\"b",
             .ttl = std::chrono::milliseconds(0),
             .lock_delay = std::chrono::milliseconds(1),
             .behavior = session_behavior::remove,
             .node_checks = false};
  BOOST_TEST(write_session(options) == R"({"LockDelay":"1ms","Behavior":"delete","Name":"a\"b","NodeChecks":[]})");
}

BOOST_AUTO_TEST_CASE(a_session_on_another_node_has_no_checks) {
  session_options options;
  options.node = "a\"b";
  for (const bool node_checks : {true, false}) {
    options.node_checks = node_checks;
    BOOST_TEST(write_session(options) == R"({"LockDelay":"15000ms","Behavior":"release","TTL":"15000ms",)"
                                         R"("Node":"a\"b","NodeChecks":[],"Checks":[]})");
  }
}

BOOST_AUTO_TEST_CASE(nodes_are_written_with_their_datacenter) {
  const node_registration node{.name = "a\"b", .address = "127.0.0.1"};
  BOOST_TEST(write_node(node, "") == R"({"Node":"a\"b","Address":"127.0.0.1"})");
  BOOST_TEST(write_node(node, "d\"c") == R"({"Datacenter":"d\"c","Node":"a\"b","Address":"127.0.0.1"})");
}

BOOST_AUTO_TEST_SUITE_END()

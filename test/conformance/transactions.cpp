// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// `PUT /v1/txn`: all or nothing. Its limits are in limits.cpp.

#include <string>
#include <vector>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::entry;
using holdfast::test::op;
using holdfast::test::peer;
using holdfast::test::txn_outcome;
using holdfast::test::unknown_session;

namespace {

std::string quoted(const peer& consul, const char* key) { return '"' + consul.prefix() + key + '"'; }

// Runs a transaction of this one operation, checks that it has one error, and returns the error.
std::string error_of(const peer& consul, const op& operation) {
  const auto outcome = consul.txn({operation});
  BOOST_TEST(outcome.status == 409);
  BOOST_TEST(outcome.results.empty());
  BOOST_REQUIRE(outcome.errors.size() == 1u);
  return outcome.errors[0];
}

std::string key_of(const txn_outcome& outcome, std::size_t i) {
  return outcome.results.size() > i ? outcome.results[i].key : "none";
}

std::string sent(const peer& consul, const char* body) { return consul.request("PUT", "/v1/txn", body).complaint(); }

}  // namespace

BOOST_AUTO_TEST_SUITE(transactions)

FACT(set_writes_and_echoes_the_entry_without_its_value) {
  const auto outcome = consul.txn({op("set", "a").value("v").flags(16210313421097356768u)});
  BOOST_TEST(outcome.status == 200);
  BOOST_REQUIRE(outcome.results.size() == 1u);
  entry stored = consul.read("a");
  BOOST_TEST(stored.value == base64("v"));
  BOOST_TEST(stored.flags == 16210313421097356768u);
  stored.value.clear();
  BOOST_TEST(outcome.results[0] == stored);
}

FACT(set_without_a_value_writes_an_empty_one) {
  BOOST_TEST(consul.txn({op("set", "a")}).status == 200);
  BOOST_TEST(consul.get("a?raw").said() == "200 ");
}

FACT(get_reads_an_entry) {
  consul.put("a?flags=2", "v");
  const auto outcome = consul.txn({op("get", "a")});
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0] == consul.read("a"));
}

FACT(get_of_a_missing_key_is_an_error) {
  BOOST_TEST(error_of(consul, op("get", "a")) == "0: key " + quoted(consul, "a") + " doesn't exist");
}

FACT(get_tree_reads_all_that_begins_so) {
  for (const auto* name : {"a", "a/b", "ab", "b"}) consul.put(name, "v");
  const auto outcome = consul.txn({op("get-tree", "a")});
  BOOST_REQUIRE(outcome.results.size() == 3u);
  BOOST_TEST(outcome.results[2] == consul.read("ab"));
}

FACT(get_tree_of_nothing_is_no_result_and_no_error) {
  const auto outcome = consul.txn({op("get-tree", "a")});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.empty());
}

FACT(cas_replaces_at_its_index) {
  consul.put("a", "v");
  const auto outcome = consul.txn({op("cas", "a").value("w").index(consul.read("a").modified)});
  BOOST_TEST(outcome.status == 200);
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0].value == "");
  BOOST_TEST(consul.read("a").value == base64("w"));
  BOOST_TEST(consul.read("a").modified == outcome.results[0].modified);
}

FACT(cas_0_creates) {
  BOOST_TEST(consul.txn({op("cas", "a").value("v").index(0)}).status == 200);
  BOOST_TEST(consul.txn({op("cas", "b").value("v")}).status == 200);
  BOOST_TEST(consul.exists("b"));
}

FACT(cas_at_another_index_is_an_error) {
  consul.put("a", "v");
  for (const auto index : {std::uint64_t{0}, consul.read("a").modified + 1})
    BOOST_TEST(error_of(consul, op("cas", "a").value("w").index(index)) ==
               "0: failed to set key " + quoted(consul, "a") + ", index is stale");
  BOOST_TEST(error_of(consul, op("cas", "b").index(7)) ==
             "0: failed to set key " + quoted(consul, "b") + ", index is stale");
}

FACT(lock_locks) {
  const auto id = consul.session();
  const auto outcome = consul.txn({op("lock", "a").session(id).value("v").flags(3)});
  BOOST_REQUIRE(outcome.results.size() == 1u);
  entry stored = consul.read("a");
  BOOST_TEST(stored.session == id);
  BOOST_TEST(stored.locked == 1u);
  stored.value.clear();
  BOOST_TEST(outcome.results[0] == stored);
}

FACT(lock_of_what_another_holds_is_an_error) {
  consul.put("a?acquire=" + consul.session(), "v");
  BOOST_TEST(error_of(consul, op("lock", "a").session(consul.session())) ==
             "0: failed to lock key " + quoted(consul, "a") + ", lock is already held");
}

FACT(lock_by_the_holder_writes_again) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  BOOST_TEST(consul.txn({op("lock", "a").session(id).value("w")}).status == 200);
  BOOST_TEST(consul.read("a").value == base64("w"));
  BOOST_TEST(consul.read("a").locked == 1u);
}

FACT(lock_needs_a_live_session) {
  BOOST_TEST(error_of(consul, op("lock", "a")) == "0: missing session");
  const std::string malformed = "0: failed session lookup: index error: UUID must be 36 characters";
  BOOST_TEST(error_of(consul, op("lock", "a").session("zz")) ==
             (consul.is_from(12) ? "0: invalid session \"zz\"" : malformed));
  BOOST_TEST(error_of(consul, op("lock", "a").session(unknown_session)) ==
             "0: invalid session \"" + std::string(unknown_session) + '"');
}

FACT(unlock_unlocks_and_writes) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  const auto outcome = consul.txn({op("unlock", "a").session(id).value("w")});
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0].session == "");
  BOOST_TEST(consul.read("a").session == "");
  BOOST_TEST(consul.read("a").value == base64("w"));
  BOOST_TEST(consul.read("a").locked == 1u);
}

FACT(unlock_of_what_one_does_not_hold_is_an_error) {
  consul.put("a?acquire=" + consul.session(), "v");
  for (const auto* id : {unknown_session, "zz"})
    BOOST_TEST(error_of(consul, op("unlock", "a").session(id)) ==
               "0: failed to unlock key " + quoted(consul, "a") + ", lock isn't held, or is held by another session");
  BOOST_TEST(error_of(consul, op("unlock", "b").session(unknown_session)) ==
             "0: failed to unlock key " + quoted(consul, "b") + ", lock isn't held, or is held by another session");
  BOOST_TEST(error_of(consul, op("unlock", "a")) == "0: missing session");
}

FACT(check_index_compares_the_modify_index_and_echoes) {
  consul.put("a", "v");
  const auto index = consul.read("a").modified;
  const auto outcome = consul.txn({op("check-index", "a").index(index)});
  BOOST_TEST(outcome.status == 200);
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0].modified == index);
  BOOST_TEST(outcome.results[0].value == "");
}

FACT(check_index_says_both_indexes) {
  consul.put("a", "v");
  BOOST_TEST(error_of(consul, op("check-index", "a").index(5)) ==
             "0: failed index check for key " + quoted(consul, "a") + ", current modify index " +
                 std::to_string(consul.read("a").modified) + " != 5");
  BOOST_TEST(error_of(consul, op("check-index", "b").index(5)) ==
             "0: failed to check index, key " + quoted(consul, "b") + " doesn't exist");
}

FACT(check_session_compares_the_holder_and_echoes) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  consul.put("b", "v");
  const auto outcome = consul.txn({op("check-session", "a").session(id), op("check-session", "b")});
  BOOST_TEST(outcome.status == 200);
  BOOST_REQUIRE(outcome.results.size() == 2u);
  BOOST_TEST(outcome.results[0].session == id);
  BOOST_TEST(outcome.results[0].value == "");
}

FACT(check_session_says_both_sessions) {
  consul.put("a", "v");
  BOOST_TEST(error_of(consul, op("check-session", "a").session("abc")) ==
             "0: failed session check for key " + quoted(consul, "a") + ", current session \"\" != \"abc\"");
  BOOST_TEST(error_of(consul, op("check-session", "b").session("abc")) ==
             "0: failed to check session, key " + quoted(consul, "b") + " doesn't exist");
}

FACT(check_not_exists_has_no_result) {
  const auto outcome = consul.txn({op("check-not-exists", "a")});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.empty());
}

FACT(check_not_exists_of_a_key_that_exists_is_an_error) {
  consul.put("a", "v");
  BOOST_TEST(error_of(consul, op("check-not-exists", "a")) == "0: key " + quoted(consul, "a") + " exists");
}

FACT(deletions_have_no_result_and_need_nothing_to_delete) {
  for (const auto* name : {"a", "b", "c/1", "c/2", "d"}) consul.put(name, "v");
  const auto outcome =
      consul.txn({op("delete", "a"), op("delete-tree", "c/"), op("delete", "none"), op("delete-tree", "none"),
                  op("delete-cas", "b").index(consul.read("b").modified), op("delete-cas", "none").index(7)});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.empty());
  BOOST_TEST(consul.keys("") == "d");
}

FACT(delete_cas_at_another_index_is_an_error) {
  consul.put("a", "v");
  BOOST_TEST(error_of(consul, op("delete-cas", "a").index(7)) ==
             "0: failed to delete key " + quoted(consul, "a") + ", index is stale");
}

FACT(every_verb_but_delete_tree_needs_a_key) {
  for (const auto* verb : {"set", "cas", "lock", "unlock", "get", "get-tree", "check-index", "check-session",
                           "check-not-exists", "delete", "delete-cas", "zzz"})
    BOOST_TEST(sent(consul, (R"([{"KV":{"Verb":")" + std::string(verb) + R"(","Key":""}}])").c_str())
                   .find("Must provide key") != std::string::npos);
}

FACT(results_are_in_the_order_of_the_operations) {
  consul.put("t/1", "v");
  consul.put("t/2", "v");
  const auto outcome = consul.txn(
      {op("set", "b").value("v"), op("get-tree", "t/"), op("check-not-exists", "c"), op("set", "a").value("v")});
  BOOST_REQUIRE(outcome.results.size() == 4u);
  BOOST_TEST(key_of(outcome, 0) == "b");
  BOOST_TEST(key_of(outcome, 1) == "t/1");
  BOOST_TEST(key_of(outcome, 2) == "t/2");
  BOOST_TEST(key_of(outcome, 3) == "a");
}

FACT(operations_see_what_those_before_them_did) {
  const auto outcome = consul.txn(
      {op("set", "a").value("v"), op("get", "a"), op("delete", "a"), op("check-not-exists", "a"), op("get-tree", "a")});
  BOOST_TEST(outcome.status == 200);
  BOOST_REQUIRE(outcome.results.size() == 2u);
  BOOST_TEST(outcome.results[1].value == base64("v"));
  BOOST_TEST(!consul.exists("a"));
}

FACT(operations_do_not_see_what_those_behind_them_do) {
  const auto outcome = consul.txn({op("get", "a"), op("set", "a").value("v")});
  BOOST_TEST(outcome.status == 409);
  BOOST_TEST(!consul.exists("a"));
}

FACT(all_writes_of_a_transaction_have_one_index) {
  const auto outcome = consul.txn({op("set", "a").value("v"), op("set", "b").value("v")});
  BOOST_REQUIRE(outcome.results.size() == 2u);
  BOOST_TEST(outcome.results[0].modified == outcome.results[1].modified);
  BOOST_TEST(consul.read("a").modified == consul.read("b").modified);
}

FACT(one_error_undoes_everything) {
  const auto id = consul.session();
  consul.put("a", "v");
  consul.put("d", "v");
  const auto before = consul.list("");
  const auto index = consul.index("?recurse");
  const auto outcome = consul.txn({op("set", "a").value("w"), op("lock", "b").session(id), op("delete", "d"),
                                   op("delete-tree", ""), op("check-not-exists", "zz"), op("get", "zz")});
  BOOST_TEST(outcome.status == 409);
  BOOST_TEST(outcome.results.empty());
  BOOST_TEST((consul.list("") == before));
  BOOST_TEST(consul.index("?recurse") == index);
}

FACT(every_error_is_reported) {
  consul.put("a", "v");
  const auto outcome = consul.txn({op("get", "x"), op("set", "b").value("v"), op("check-not-exists", "a"),
                                   op("cas", "a").index(7), op("lock", "c").session(unknown_session)});
  BOOST_REQUIRE(outcome.errors.size() == 4u);
  BOOST_TEST(outcome.errors[0].substr(0, 2) == "0:");
  BOOST_TEST(outcome.errors[1].substr(0, 2) == "2:");
  BOOST_TEST(outcome.errors[2].substr(0, 2) == "3:");
  BOOST_TEST(outcome.errors[3].substr(0, 2) == "4:");
}

FACT(errors_are_of_a_world_in_which_the_failed_did_not_happen_and_the_others_did) {
  const auto outcome = consul.txn({op("get", "x"), op("set", "a").value("v"), op("check-not-exists", "a"),
                                   op("cas", "b").index(7), op("get", "b")});
  BOOST_REQUIRE(outcome.errors.size() == 4u);
  BOOST_TEST(outcome.errors[1] == "2: key " + quoted(consul, "a") + " exists");
  BOOST_TEST(outcome.errors[3] == "4: key " + quoted(consul, "b") + " doesn't exist");
}

FACT(delete_and_lock_in_one_transaction_make_a_new_key) {
  const auto one = consul.session(), other = consul.session();
  consul.put("a?acquire=" + one, "v");
  const entry before = consul.read("a");
  const auto outcome = consul.txn({op("delete", "a"), op("lock", "a").session(other).value("w")});
  BOOST_TEST(outcome.status == 200);
  const entry after = consul.read("a");
  BOOST_TEST(after.session == other);
  BOOST_TEST(after.created > before.created);
  BOOST_TEST(after.locked == 1u);
}

FACT(set_on_a_locked_key_keeps_its_session_and_resets_its_lock_index) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  const auto outcome = consul.txn({op("set", "a").value("w")});
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0].session == id);
  BOOST_TEST(outcome.results[0].locked == 0u);
}

FACT(set_of_what_is_there_moves_no_index) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  const auto outcome = consul.txn({op("set", "a").value("v")});
  BOOST_REQUIRE(outcome.results.size() == 1u);
  BOOST_TEST(outcome.results[0].modified == before.modified);
  BOOST_TEST(consul.read("a") == before);
}

FACT(a_transaction_that_only_reads_says_more_of_itself) {
  consul.put("a", "v");
  const auto reply = consul.txn({op("get", "a")}).reply;
  BOOST_TEST(reply.json().at("Index") == (consul.is_from(10) ? 1 : 0));
  BOOST_TEST(reply.json().at("LastContact") == 0);
  BOOST_TEST(reply.json().at("KnownLeader") == true);
  BOOST_TEST(reply.json().at("ConsistencyLevel") == "");
  BOOST_TEST(reply.json().as_object().size() == (consul.is_from(12) ? 9u : consul.is_from(10) ? 8u : 6u));
  BOOST_TEST(reply.header("x-consul-knownleader") == "true");
  BOOST_TEST(reply.header("x-consul-lastcontact") == "0");
  BOOST_TEST(reply.header("x-consul-index") == "");
}

FACT(checks_are_reads) {
  consul.put("a", "v");
  const auto reply = consul.txn({op("check-not-exists", "b"), op("check-session", "a"), op("get-tree", "a")}).reply;
  BOOST_TEST(reply.json().as_object().contains("KnownLeader"));
}

FACT(a_transaction_that_writes_says_only_results_and_errors) {
  consul.put("a", "v");
  const auto reply = consul.txn({op("get", "a"), op("delete", "b")}).reply;
  BOOST_TEST(reply.json().as_object().size() == 2u);
  BOOST_TEST(reply.json().at("Errors").is_null());
  BOOST_TEST(reply.header("x-consul-knownleader") == "");
}

FACT(a_refused_transaction_has_no_results) {
  const auto reply = consul.txn({op("get", "a"), op("set", "b")}).reply;
  BOOST_TEST(reply.status == 409);
  BOOST_TEST(reply.header("content-type").starts_with("application/json"));
  BOOST_TEST(reply.json().at("Results").is_null());
}

FACT(no_operations_are_a_transaction) {
  const auto outcome = consul.txn({});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.reply.json().at("Results") == boost::json::array());
  BOOST_TEST(outcome.reply.json().at("Errors").is_null());
}

FACT(null_is_a_transaction_too_and_nothing_behind_the_body_counts) {
  for (const auto* body : {"null", "[] x"}) {
    const auto reply = consul.request("PUT", "/v1/txn", body);
    BOOST_TEST(reply.status == 200);
    BOOST_TEST(reply.json().at("Results") == boost::json::array());
  }
}

FACT(an_operation_of_no_kind_is_ignored) {
  for (const auto* body : {"[{}]", R"([{"KV":null}])"}) {
    const auto reply = consul.request("PUT", "/v1/txn", body);
    BOOST_TEST(reply.status == 200);
    BOOST_TEST(reply.json().at("Results") == boost::json::array());
  }
}

FACT(fields_are_found_whatever_their_case) {
  const auto body = R"([{"kv":{"verb":"set","KEY":")" + consul.prefix() + R"(a","value":"dg=="}}])";
  BOOST_TEST(consul.request("PUT", "/v1/txn", body).status == 200);
  BOOST_TEST(consul.read("a").value == base64("v"));
}

FACT(an_operation_without_verb_is_one_of_an_unknown_verb) {
  BOOST_TEST(error_of(consul, op("", "a")) ==
             (consul.is_from(20) ? "0: unknown KV operation: " : "0: unknown KV verb \"\""));
}

FACT(an_unknown_verb_is_an_error_among_the_others_or_from_1_20_on_before_them) {
  const auto outcome = consul.txn({op("get", "a"), op("zzz", "a"), op("GET", "a")});
  BOOST_TEST(outcome.status == 409);
  if (consul.is_from(20)) {
    BOOST_REQUIRE(outcome.errors.size() == 2u);
    BOOST_TEST(outcome.errors[0] == "1: unknown KV operation: zzz");
    BOOST_TEST(outcome.errors[1] == "2: unknown KV operation: GET");
  } else {
    BOOST_REQUIRE(outcome.errors.size() == 3u);
    BOOST_TEST(outcome.errors[1] == "1: unknown KV verb \"zzz\"");
    BOOST_TEST(outcome.errors[2] == "2: unknown KV verb \"GET\"");
  }
}

FACT(a_body_that_is_not_json_is_refused) {
  BOOST_TEST(sent(consul, "") == "400 Failed to parse body: EOF");
  BOOST_TEST(sent(consul, "[") == "400 Failed to parse body: unexpected EOF");
  BOOST_TEST(sent(consul, "x") == "400 Failed to parse body: invalid character 'x' looking for beginning of value");
}

// A mutex relies on this: its key passes from one session to the next at one index.

FACT(a_key_is_unlocked_and_locked_for_another_session_in_one) {
  const std::string a = consul.session(), b = consul.session();
  consul.put("m?flags=7&acquire=" + a, "of a");
  const entry before = consul.read("m");
  auto watch = consul.watch("m");
  const auto outcome =
      consul.txn({op("check-index", "m").index(before.modified), op("unlock", "m").value("of a").flags(7).session(a),
                  op("lock", "m").value("of b").flags(7).session(b)});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.size() == 3u);
  const entry after = watch.woken().first();
  BOOST_TEST(after.session == b);
  BOOST_TEST(after.value == base64("of b"));
  BOOST_TEST(after.locked == before.locked + 1);
  BOOST_TEST(after.modified > before.modified);
  BOOST_TEST(consul.read("m").modified == after.modified);
}

// A proclaim relies on this: the session that has locked a key writes another value into it, under its lock.

FACT(the_holder_writes_under_its_lock_and_all_who_watch_hear_of_it) {
  const std::string a = consul.session();
  consul.put("m?flags=7&acquire=" + a, "old");
  const entry before = consul.read("m");
  auto watch = consul.watch("m");
  const auto outcome = consul.txn({op("check-session", "m").session(a), op("check-index", "m").index(before.modified),
                                   op("lock", "m").value("new").flags(7).session(a)});
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.size() == 3u);
  const entry after = watch.woken().first();
  BOOST_TEST(after.value == base64("new"));
  BOOST_TEST(after.session == a);
  BOOST_TEST(after.locked == before.locked);
  BOOST_TEST(after.created == before.created);
  BOOST_TEST(after.modified > before.modified);
  const auto release =
      consul.txn({op("check-index", "m").index(after.modified), op("unlock", "m").value("new").flags(7).session(a)});
  BOOST_TEST(release.status == 200);
  const entry left = consul.read("m");
  BOOST_TEST(left.value == base64("new"));
  BOOST_TEST(left.session == "");
  BOOST_TEST(left.locked == before.locked);
}

// Mutex sets rely on these facts.

FACT(a_refused_transaction_of_64_operations_names_each_lock_that_was_refused) {
  const std::string ours = consul.session(), other = consul.session();
  for (const int taken : {1, 7, 63}) consul.put("k" + std::to_string(taken) + "?acquire=" + other);
  std::vector<op> operations;
  for (int i = 0; i < 64; ++i) operations.push_back(op("lock", "k" + std::to_string(i)).session(ours));
  const auto outcome = consul.txn(operations);
  BOOST_TEST(outcome.status == 409);
  BOOST_REQUIRE(outcome.errors.size() == 3u);
  BOOST_TEST(outcome.errors[0].substr(0, 2) == "1:");
  BOOST_TEST(outcome.errors[1].substr(0, 2) == "7:");
  BOOST_TEST(outcome.errors[2].substr(0, 3) == "63:");
  BOOST_TEST(!consul.exists("k0"));
}

FACT(a_cas_of_flags_alone_moves_the_index_of_a_locked_key_and_keeps_its_session) {
  const std::string ours = consul.session();
  consul.put("guard?acquire=" + ours);
  const entry before = consul.read("guard");
  const auto count = [&](std::uint64_t flags) {
    return consul.txn({op("cas", "guard").flags(flags).index(before.modified)});
  };
  const auto outcome = count(1);
  BOOST_REQUIRE(outcome.results.size() == 1u);
  const entry after = consul.read("guard");
  BOOST_TEST(after.session == ours);
  BOOST_TEST(after.flags == 1u);
  BOOST_TEST(after.modified > before.modified);
  BOOST_TEST(outcome.results[0].modified == after.modified);
  BOOST_TEST(count(2).status == 409);  // a copy, or what was overtaken
  BOOST_TEST((consul.read("guard") == after));
}

FACT(a_key_is_deleted_by_its_holder_only_in_one_transaction_with_a_check) {
  const std::string ours = consul.session(), other = consul.session();
  consul.put("a?acquire=" + ours);
  const auto remove = [&](const std::string& session) {
    return consul.txn({op("check-session", "a").session(session), op("delete", "a")});
  };
  BOOST_TEST(remove(other).status == 409);
  BOOST_TEST(consul.exists("a"));
  const auto outcome = remove(ours);
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.size() == 1u);
  BOOST_TEST(!consul.exists("a"));
  BOOST_TEST(remove(ours).errors.size() == 1u);
}

FACT(the_removal_of_nothing_makes_a_look_a_write_that_changes_nothing) {
  consul.put("a", "v");
  const auto index = consul.index("?recurse");
  const auto outcome = consul.txn({op("delete", "none"), op("get", "a"), op("get", "b")});
  BOOST_TEST(outcome.status == 409);
  BOOST_REQUIRE(outcome.errors.size() == 1u);
  BOOST_TEST(outcome.errors[0].substr(0, 2) == "2:");
  const auto seen = consul.txn({op("delete", "none"), op("get", "a")});
  BOOST_REQUIRE(seen.results.size() == 1u);
  BOOST_TEST(seen.results[0] == consul.read("a"));
  BOOST_TEST(seen.reply.body.find("KnownLeader") == std::string::npos);  // as reads say
  BOOST_TEST(consul.index("?recurse") == index);
}

FACT(a_body_of_another_shape_is_refused) {
  for (const auto* body : {"{}", "7", "\"x\"", "[7]", R"([{"KV":7}])", R"([{"KV":{"Verb":7}}])"})
    BOOST_TEST(sent(consul, body).substr(0, 25) == "400 Failed to parse body:");
}

FACT(a_value_must_be_base64) {
  const std::pair<std::string, const char*> places[] = {
      {"!", "0"},    {"aG", "0"},    {"aGk", "0"},      {"aGkaG", "4"}, {"aGk!", "3"}, {"a===", "1"},
      {"aG=k", "2"}, {"aGk=x", "4"}, {"aGk=aGk=", "4"}, {"aG==x", "4"}, {"=", "0"},    {" aGk=", "0"}};
  for (const auto& [value, place] : places)
    BOOST_TEST(sent(consul, (R"([{"KV":{"Verb":"set","Key":"x","Value":")" + value + R"("}}])").c_str()) ==
               "400 Failed to parse body: illegal base64 data at input byte " + std::string(place));
}

FACT(flags_are_64_bits_wide) {
  BOOST_TEST(sent(consul, R"([{"KV":{"Verb":"set","Key":"x","Flags":18446744073709551616}}])").substr(0, 3) == "400");
  BOOST_TEST(sent(consul, R"([{"KV":{"Verb":"set","Key":"x","Flags":-1}}])").substr(0, 3) == "400");
  BOOST_TEST(sent(consul, R"([{"KV":{"Verb":"set","Key":"x","Flags":1.5}}])").substr(0, 3) == "400");
}

FACT(a_key_in_a_body_is_taken_as_it_is) {
  BOOST_TEST(consul.txn({op("set", "//a/../%61 \"\n").value("v")}).status == 200);
  BOOST_TEST(consul.keys("") == "//a/../%61 \"\n");
}

BOOST_AUTO_TEST_SUITE_END()

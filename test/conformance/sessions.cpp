// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Making, reading and ending sessions. Their time to live is in ttl.cpp.

#include <algorithm>
#include <string>
#include <vector>

#include "conformance/support/fact.hpp"

namespace json = boost::json;
using holdfast::test::peer;
using holdfast::test::unknown_session;

namespace {

constexpr auto malformed = "failed session lookup: index error: UUID must be 36 characters";

std::string made(peer& consul, const char* body) {
  const auto reply = consul.create_session(body);
  BOOST_REQUIRE_MESSAGE(reply.status == 200, reply.said());
  return std::string(reply.json().at("ID").as_string());
}

std::vector<std::string> listed(peer& consul, const std::string& target = "/v1/session/list") {
  std::vector<std::string> out;
  const auto reply = consul.request("GET", target).json();
  for (const auto& each : reply.as_array()) out.emplace_back(each.at("ID").as_string());
  return out;
}

bool contains(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sessions)

FACT(a_new_session_has_an_id_of_36_characters) {
  const auto reply = consul.create_session("");
  BOOST_TEST(reply.status == 200);
  BOOST_TEST(reply.json().as_object().size() == 1u);
  const std::string id(reply.json().at("ID").as_string());
  BOOST_TEST(id.size() == 36u);
  for (const std::size_t dash : {8u, 13u, 18u, 23u}) BOOST_TEST(id[dash] == '-');
}

FACT(a_session_of_no_wishes_has_these_defaults) {
  const auto info = consul.session_info(made(consul, ""));
  BOOST_TEST(info.at("Name") == "");
  BOOST_TEST(info.at("LockDelay") == 15'000'000'000);
  BOOST_TEST(info.at("Behavior") == "release");
  BOOST_TEST(info.at("TTL") == "");
  BOOST_TEST(info.at("NodeChecks") == json::array({"serfHealth"}));
  BOOST_TEST(info.at("ServiceChecks").is_null());
  BOOST_TEST(info.at("CreateIndex") == info.at("ModifyIndex"));
  BOOST_TEST(info.as_object().size() == 10u);
}

FACT(an_empty_object_is_no_wishes) {
  BOOST_TEST(consul.session_info(made(consul, "{}")).at("NodeChecks") == json::array({"serfHealth"}));
}

FACT(a_session_is_what_was_asked_for) {
  const auto id =
      made(consul, R"({"Name":"w\u00e9 \"x\"","LockDelay":"2s","Behavior":"delete","TTL":"30s","Checks":[]})");
  const auto info = consul.session_info(id);
  BOOST_TEST(info.at("ID") == json::string(id));
  BOOST_TEST(info.at("Name") == "w\u00e9 \"x\"");
  BOOST_TEST(info.at("LockDelay") == 2'000'000'000);
  BOOST_TEST(info.at("Behavior") == "delete");
  BOOST_TEST(info.at("TTL") == "30s");
}

FACT(checks_and_node_checks_are_two_names_of_one_thing) {
  for (const auto* body : {R"({"Checks":[]})", R"({"NodeChecks":[]})"})
    BOOST_TEST(consul.session_info(made(consul, body)).at("NodeChecks") == json::array());
  const auto both = made(consul, R"({"Checks":["serfHealth"]})");
  BOOST_TEST(consul.session_info(both).at("NodeChecks") == json::array({"serfHealth"}));
}

FACT(checks_of_null_are_none) {
  BOOST_TEST(consul.session_info(made(consul, R"({"Checks":null})")).at("NodeChecks") == json::array());
}

FACT(fields_are_found_whatever_their_case) {
  const auto info =
      consul.session_info(made(consul, R"({"name":"n","behavior":"delete","lockdelay":"1s","checks":[]})"));
  BOOST_TEST(info.at("Name") == "n");
  BOOST_TEST(info.at("Behavior") == "delete");
  BOOST_TEST(info.at("LockDelay") == 1'000'000'000);
  BOOST_TEST(info.at("NodeChecks") == json::array());
}

FACT(unknown_fields_are_ignored) { made(consul, R"({"Checks":[],"Colour":"blue"})"); }

FACT(an_id_cannot_be_chosen) {
  const auto id = made(consul, R"({"ID":"12345678-1234-1234-1234-123456789012","Checks":[]})");
  BOOST_TEST(id != "12345678-1234-1234-1234-123456789012");
}

FACT(names_need_not_differ) {
  BOOST_TEST(made(consul, R"({"Name":"n","Checks":[]})") != made(consul, R"({"Name":"n","Checks":[]})"));
}

FACT(a_behavior_is_release_or_delete) {
  BOOST_TEST(consul.create_session(R"({"Behavior":"zzz"})").said() == "500 Invalid Behavior setting 'zzz'");
  BOOST_TEST(consul.create_session(R"({"Behavior":"Delete"})").status == 500);
}

FACT(a_session_of_an_unknown_node_is_refused) {
  BOOST_TEST(consul.create_session(R"({"Node":"zzz"})").said() ==
             consul.session_failed() + "Missing node registration");
}

FACT(a_session_with_an_unknown_check_is_refused) {
  BOOST_TEST(consul.create_session(R"({"Checks":["zz"]})").said() ==
             consul.session_failed() + "Missing check 'zz' registration");
}

FACT(a_body_of_null_is_no_wishes_and_nothing_behind_the_body_counts) {
  for (const auto* body : {"null", "{} {", "{}x"})
    BOOST_TEST(consul.session_info(made(consul, body)).at("NodeChecks") == json::array({"serfHealth"}));
}

FACT(a_field_of_another_type_is_refused) {
  for (const auto* body :
       {R"({"TTL":30})", R"({"Name":7})", R"({"Behavior":7})", R"({"Checks":"serfHealth"})", R"({"Checks":[7]})"})
    BOOST_TEST(consul.create_session(body).status == 400);
}

FACT(a_field_of_null_is_not_given) {
  const auto info = consul.session_info(made(consul, R"({"TTL":null,"Name":null,"LockDelay":null})"));
  BOOST_TEST(info.at("TTL") == "");
  BOOST_TEST(info.at("LockDelay") == 15'000'000'000);
}

FACT(a_body_that_is_not_json_is_refused) {
  for (const auto* body : {"{", " ", "x", "[]"}) {
    const auto reply = consul.create_session(body);
    BOOST_TEST(reply.status == 400);
    BOOST_TEST(reply.body.find("Request decode failed: ") != std::string::npos);
  }
}

FACT(an_unknown_session_has_an_empty_info) {
  const auto reply = consul.info(unknown_session);
  BOOST_TEST(reply.said() == "200 []");
  BOOST_TEST(reply.index() > 0u);
}

FACT(a_malformed_id_is_refused_everywhere_or_from_1_12_on_that_of_no_session) {
  if (consul.is_from(12)) {
    BOOST_TEST(consul.info("none").said() == "200 []");
    BOOST_TEST(consul.renew("none").said() == "404 Session id 'none' not found");
    BOOST_TEST(consul.destroy("none").said() == "200 true");
  } else {
    BOOST_TEST(consul.info("none").said() == "500 " + std::string(malformed));
    BOOST_TEST(consul.renew("none").said() == "500 " + std::string(malformed));
    BOOST_TEST(consul.destroy("none").said() == consul.session_failed() + std::string(malformed));
  }
}

FACT(an_id_is_hexadecimal_digits_and_at_most_4_dashes_or_from_1_12_on_any_text) {
  if (consul.is_from(12)) {
    for (const auto* id : {"zzzzzzzz-0000-0000-0000-000000000000", "0000-0000-0000-0000-00000000-0000000"})
      BOOST_TEST(consul.info(id).said() == "200 []");
    return;
  }
  const std::string begin = "500 failed session lookup: index error: ";
  BOOST_TEST(consul.info("zzzzzzzz-0000-0000-0000-000000000000").said() ==
             begin + "Invalid UUID: encoding/hex: invalid byte: U+007A 'z'");
  BOOST_TEST(consul.info("0000-0000-0000-0000-00000000-0000000").said() ==
             begin + "UUID should have maximum of 4 \"-\"; got 5");
  BOOST_TEST(consul.info("00000000-0000-0000-00000000000000000").said() ==
             begin + "Input (without hyphens) must be even length");
  BOOST_TEST(consul.info("000000000000-0000-0000-0000-00000000").said() == "200 []");
  BOOST_TEST(consul.put("a?acquire=zzzzzzzz-0000-0000-0000-000000000000").said() ==
             consul.write_failed() +
                 "failed session lookup: index error: " + "Invalid UUID: encoding/hex: invalid byte: U+007A 'z'");
}

FACT(an_id_is_needed) {
  BOOST_TEST(consul.info("").complaint() == "400 Missing session");
  BOOST_TEST(consul.renew("").complaint() == "400 Missing session");
  BOOST_TEST(consul.destroy("").complaint() == "400 Missing session");
}

FACT(renewing_answers_with_the_session) {
  const auto id = made(consul, R"({"TTL":"30s","Checks":[]})");
  const auto reply = consul.renew(id);
  BOOST_TEST(reply.status == 200);
  BOOST_TEST(reply.json() == consul.info(id).json());
}

FACT(a_session_without_ttl_can_be_renewed_too) { BOOST_TEST(consul.renew(made(consul, "")).status == 200); }

FACT(renewing_moves_no_index) {
  const auto id = made(consul, R"({"TTL":"30s","Checks":[]})");
  const auto before = consul.info(id);
  consul.renew(id);
  BOOST_TEST(consul.info(id).index() == before.index());
  BOOST_TEST(consul.info(id).json() == before.json());
}

FACT(renewing_an_unknown_session_is_404) {
  BOOST_TEST(consul.renew(unknown_session).said() == "404 Session id '" + std::string(unknown_session) + "' not found");
  const auto id = made(consul, "");
  consul.destroy(id);
  BOOST_TEST(consul.renew(id).said() == "404 Session id '" + id + "' not found");
}

FACT(destroying_is_true_also_of_what_is_not_there) {
  const auto id = made(consul, "");
  BOOST_TEST(consul.destroy(id).said() == "200 true");
  BOOST_TEST(consul.info(id).said() == "200 []");
  BOOST_TEST(consul.destroy(id).said() == "200 true");
  BOOST_TEST(consul.destroy(unknown_session).said() == "200 true");
}

FACT(the_list_holds_what_info_says_sorted_by_id) {
  for (int i = 0; i < 4; ++i) made(consul, R"({"Name":"n","TTL":"30s"})");
  const auto ids = listed(consul);
  BOOST_TEST(ids.size() >= 4u);
  BOOST_TEST(std::is_sorted(ids.begin(), ids.end()));
  const auto list = consul.request("GET", "/v1/session/list").json();
  for (const auto& each : list.as_array())
    BOOST_TEST(each == consul.session_info(std::string(each.at("ID").as_string())));
}

FACT(a_destroyed_session_is_not_listed) {
  const auto id = made(consul, "");
  BOOST_TEST(contains(listed(consul), id));
  consul.destroy(id);
  BOOST_TEST(!contains(listed(consul), id));
}

FACT(a_node_lists_its_sessions) {
  const auto id = made(consul, "");
  const std::string node(consul.session_info(id).at("Node").as_string());
  BOOST_TEST(contains(listed(consul, "/v1/session/node/" + node), id));
  BOOST_TEST(consul.request("GET", "/v1/session/node/none").said() == "200 []");
  BOOST_TEST(consul.request("GET", "/v1/session/node/").complaint() == "400 Missing node name");
}

FACT(a_session_may_name_its_node) {
  const std::string node(consul.session_info(made(consul, "")).at("Node").as_string());
  const auto id = consul.session({{"Node", json::string(node)}});
  BOOST_TEST(consul.session_info(id).at("Node") == json::string(node));
}

FACT(infos_index_is_that_of_all_sessions_not_of_this_one) {
  const auto id = made(consul, "");
  const auto before = consul.info(id).index();
  const auto other = made(consul, "");
  BOOST_TEST(consul.info(id).index() > before);
  BOOST_TEST(consul.info(id).index() == consul.request("GET", "/v1/session/list").index());
  BOOST_TEST(consul.info(unknown_session).index() == consul.info(id).index());
  BOOST_TEST(consul.session_info(other).at("ModifyIndex") == consul.info(id).index());
}

FACT(the_index_moves_when_a_session_ends) {
  const auto id = made(consul, "");
  const auto before = consul.info(id).index();
  consul.destroy(id);
  BOOST_TEST(consul.info(id).index() > before);
}

FACT(writing_keys_does_not_move_the_index_of_sessions) {
  const auto id = made(consul, "");
  const auto before = consul.info(id).index();
  consul.put("a?acquire=" + id, "v");
  consul.put("a?release=" + id, "v");
  BOOST_TEST(consul.info(id).index() == before);
}

BOOST_AUTO_TEST_SUITE_END()

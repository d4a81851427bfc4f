// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Nodes of the catalog without an agent, and the sessions that belong to them.

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/support/fact.hpp"

namespace json = boost::json;
using holdfast::test::op;
using holdfast::test::peer;
using holdfast::test::peer_reply;
using holdfast::test::unknown_session;

namespace {

constexpr auto register_target = "/v1/catalog/register";
constexpr auto deregister_target = "/v1/catalog/deregister";
constexpr auto home = "127.0.0.1";
constexpr auto missing_node = "Missing node registration";

peer_reply register_node(const peer& consul, const std::string& name, const char* address = home) {
  return consul.request("PUT", register_target, json::serialize(json::object{{"Node", name}, {"Address", address}}));
}

peer_reply deregister_node(const peer& consul, const std::string& name) {
  return consul.request("PUT", deregister_target, json::serialize(json::object{{"Node", name}}));
}

std::string name_of_node(const peer& consul, std::string_view name) {
  return consul.prefix().substr(0, consul.prefix().size() - 1) + '-' + std::string(name);
}

// A registered node of the fact's own, until the end of the scope.
class node {
public:
  explicit node(peer& consul, std::string_view name = "h") : consul_(consul), name_(name_of_node(consul, name)) {
    BOOST_REQUIRE(register_node(consul_, name_).said() == "200 true");
  }
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  ~node() { deregister(); }

  const std::string& name() const { return name_; }
  std::string target() const { return "/v1/catalog/node/" + name_; }
  std::string sessions() const { return "/v1/session/node/" + name_; }
  peer_reply read() const { return consul_.request("GET", target()); }
  json::value info() const { return read().json().at("Node"); }
  std::string session(json::object fields = {}) const {
    fields["Node"] = name_;
    return consul_.session(std::move(fields));
  }
  void deregister() const { BOOST_TEST(deregister_node(consul_, name_).said() == "200 true"); }

private:
  peer& consul_;
  const std::string name_;
};

peer_reply all_nodes(const peer& consul) { return consul.request("GET", "/v1/catalog/nodes"); }

std::uint64_t index_of_sessions(const peer& consul) { return consul.info(unknown_session).index(); }

std::string own_node(peer& consul) { return std::string(consul.session_info(consul.session()).at("Node").as_string()); }

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(nodes)

// --- The catalog

FACT(a_node_is_a_name_and_an_address) {
  const node h(consul);
  const auto reply = h.read();
  const auto info = h.info();
  BOOST_TEST(reply.json().as_object().size() == 2u);
  BOOST_TEST(reply.json().at("Services") == json::object());
  BOOST_TEST(info.as_object().size() == 8u);
  BOOST_TEST(info.at("ID") == "");
  BOOST_TEST(info.at("Node") == json::string(h.name()));
  BOOST_TEST(info.at("Address") == home);
  BOOST_TEST(info.at("Datacenter") == "dc1");
  BOOST_TEST(info.at("TaggedAddresses").is_null());
  BOOST_TEST(info.at("Meta").is_null());
  BOOST_TEST(info.at("CreateIndex") == reply.index());
  BOOST_TEST(info.at("ModifyIndex") == reply.index());
}

FACT(an_unknown_node_is_null_at_the_index_of_the_last_node_that_went) {
  const node h(consul);
  h.deregister();
  const auto reply = consul.request("GET", "/v1/catalog/node/none");
  BOOST_TEST(reply.said() == "200 null");
  BOOST_TEST(reply.index() == (consul.is_from(13) ? all_nodes(consul).index() : 1u));
  BOOST_TEST(consul.request("GET", "/v1/catalog/node/").complaint() == "400 Missing node name");
}

FACT(the_list_is_in_the_order_of_names_without_regard_to_case) {
  const node b(consul, "b"), a(consul, "A"), c(consul, "C");
  std::vector<std::string> names;
  const auto list = all_nodes(consul).json();
  for (const auto& each : list.as_array()) names.push_back(lower_case(std::string(each.at("Node").as_string())));
  BOOST_TEST(names.size() >= 4u);  // the agent's own, too
  BOOST_TEST(std::is_sorted(names.begin(), names.end()));
  for (const node* each : {&a, &b, &c})
    BOOST_TEST(std::count(list.as_array().begin(), list.as_array().end(), each->info()) == 1);
}

FACT(the_index_of_a_node_is_that_of_all_nodes_or_from_1_13_on_its_own) {
  const node a(consul, "a");
  const auto before = a.read().index();
  BOOST_TEST(before == all_nodes(consul).index());
  const node b(consul, "b");
  BOOST_TEST(b.read().index() == all_nodes(consul).index());
  BOOST_TEST(a.read().index() == (consul.is_from(13) ? before : b.read().index()));
  b.deregister();
  BOOST_TEST(all_nodes(consul).index() > before);
  BOOST_TEST(a.read().index() == (consul.is_from(13) ? before : all_nodes(consul).index()));
}

FACT(registering_word_for_word_the_same_changes_nothing) {
  const node h(consul);
  const auto id = h.session();
  const auto before = h.read();
  const auto sessions_before = index_of_sessions(consul);
  BOOST_TEST(register_node(consul, h.name()).said() == "200 true");
  BOOST_TEST(h.read().body == before.body);
  BOOST_TEST(h.read().index() == before.index());
  BOOST_TEST(index_of_sessions(consul) == sessions_before);
  BOOST_TEST(consul.renew(id).status == 200);
}

FACT(another_address_changes_the_node_and_leaves_its_sessions_alone) {
  const node h(consul);
  const auto id = h.session();
  const auto before = h.info();
  const auto sessions_before = index_of_sessions(consul);
  BOOST_TEST(register_node(consul, h.name(), "127.0.0.2").said() == "200 true");
  BOOST_TEST(h.info().at("Address") == "127.0.0.2");
  BOOST_TEST(h.info().at("CreateIndex") == before.at("CreateIndex"));
  BOOST_TEST(h.info().at("ModifyIndex") == all_nodes(consul).index());
  BOOST_TEST(index_of_sessions(consul) == sessions_before);
  BOOST_TEST(consul.renew(id).status == 200);
}

FACT(a_name_is_found_whatever_its_case) {
  const node h(consul, "h"), upper(consul, "H");
  BOOST_TEST(h.info() == upper.info());
  // From 1.12 on, another spelling is no change.
  BOOST_TEST(h.info().at("Node") == json::string((consul.is_from(12) ? h : upper).name()));
  const bool is_changed = h.info().at("ModifyIndex").as_int64() > h.info().at("CreateIndex").as_int64();
  BOOST_TEST(is_changed == !consul.is_from(12));
  const auto id = h.session();
  BOOST_TEST(consul.session_info(id).at("Node") == json::string(h.name()));
  BOOST_TEST(consul.request("GET", upper.sessions()).body == consul.request("GET", h.sessions()).body);
  upper.deregister();
  BOOST_TEST(h.read().said() == "200 null");
  BOOST_TEST(consul.info(id).said() == "200 []");
}

FACT(names_and_addresses_may_be_any_text) {
  const node h(consul, "b c/d.e");
  BOOST_TEST(register_node(consul, h.name(), "no address").said() == "200 true");
  const auto id = h.session();
  BOOST_TEST(consul.session_info(id).at("Node") == json::string(h.name()));
}

FACT(a_registration_needs_a_name_and_an_address) {
  for (const auto* body : {"{}", "null", R"({"Node":""})", R"({"Node":null,"Address":"x"})", R"({"Address":"x"})"})
    BOOST_TEST(consul.request("PUT", register_target, body).said() == "500 Must provide node");
  BOOST_TEST(consul.request("PUT", register_target, R"({"Node":"zz"})").said() ==
             "500 Must provide address if SkipNodeUpdate is not set");
  BOOST_TEST(consul.request("GET", "/v1/catalog/node/zz").said() == "200 null");
  for (const auto* body : {"{}", "null", R"({"Node":""})", R"({"Address":"x"})"})
    BOOST_TEST(consul.request("PUT", deregister_target, body).said() == "500 Must provide node");
}

FACT(a_body_that_is_no_registration_is_refused) {
  for (const auto* target : {register_target, deregister_target})
    for (const auto* body :
         {"", " ", "{", "x", "[]", "7", R"({"Node":7})", R"({"Address":7})", R"({"Datacenter":7})"}) {
      const auto reply = consul.request("PUT", target, body);
      BOOST_TEST(reply.status == 400);
      BOOST_TEST(reply.body.find("Request decode failed: ") != std::string::npos);
    }
}

FACT(a_field_that_is_not_known_is_refused_unlike_a_sessions) {
  for (const auto* target : {register_target, deregister_target})
    BOOST_TEST(consul.request("PUT", target, R"({"Colour":"blue","Node":"h","Address":"x"})").status == 400);
}

FACT(fields_without_anything_in_them_are_not_given) {
  const std::string name = name_of_node(consul, "h");
  const std::string body = R"({"node":")" + name +
                           R"(","ADDRESS":"x","Datacenter":null,"ID":"","TaggedAddresses":null,"NodeMeta":null,)"
                           R"("Service":null,"Check":null,"Checks":[],"SkipNodeUpdate":false} and more)";
  BOOST_TEST(consul.request("PUT", register_target, body).said() == "200 true");
  const node h(consul);
  BOOST_TEST(h.info().at("Meta").is_null());
}

FACT(the_bodys_datacenter_counts_and_not_the_querys) {
  const std::string name = name_of_node(consul, "h");
  const auto body = [&](const char* datacenter) {
    return json::serialize(json::object{{"Node", name}, {"Address", "x"}, {"Datacenter", datacenter}});
  };
  for (const auto* target : {register_target, deregister_target}) {
    BOOST_TEST(consul.request("PUT", target, body("dc2")).said() == "500 No path to datacenter");
    BOOST_TEST(consul.request("PUT", target, R"({"Datacenter":"dc2"})").said() == "500 No path to datacenter");
    BOOST_TEST(consul.request("PUT", target + std::string("?dc=dc2"), body("dc1")).said() == "200 true");
    BOOST_TEST(consul.request("PUT", target + std::string("?dc=dc2"), body("")).said() == "200 true");
  }
}

FACT(the_catalog_has_its_methods) {
  BOOST_TEST(consul.request("POST", register_target, "{}").said() == "405 method POST not allowed");
  BOOST_TEST(consul.request("GET", deregister_target).said() == "405 method GET not allowed");
  BOOST_TEST(consul.request("PUT", "/v1/catalog/nodes", "{}").said() == "405 method PUT not allowed");
  BOOST_TEST(consul.request("OPTIONS", "/v1/catalog/node/x").header("allow") == "OPTIONS,GET");
}

FACT(deregistering_what_is_not_there_is_true_and_changes_nothing) {
  const node h(consul);
  const auto id = h.session();
  const auto before = all_nodes(consul).index();
  BOOST_TEST(deregister_node(consul, name_of_node(consul, "none")).said() == "200 true");
  BOOST_TEST(all_nodes(consul).index() == before);
  BOOST_TEST(consul.renew(id).status == 200);
}

FACT(a_node_that_is_registered_again_is_a_new_one) {
  const node h(consul);
  const auto before = h.info().at("CreateIndex").as_int64();
  h.deregister();
  const node again(consul);
  BOOST_TEST(h.info().at("CreateIndex").as_int64() > before);
}

// --- Sessions of a node

FACT(a_session_on_a_registered_node_is_one_like_others) {
  const node h(consul);
  const auto id = h.session({{"TTL", "30s"}});
  const auto info = consul.session_info(id);
  BOOST_TEST(info.at("Node") == json::string(h.name()));
  BOOST_TEST(info.at("NodeChecks") == json::array());
  BOOST_TEST(consul.renew(id).json() == consul.info(id).json());
  BOOST_TEST(consul.put("a?acquire=" + id, "v").said() == "200 true");
  BOOST_TEST(consul.read("a").session == id);
  BOOST_TEST(consul.destroy(id).said() == "200 true");
  BOOST_TEST(consul.read("a").session == "");
  BOOST_TEST(consul.renew(id).status == 404);
}

FACT(only_the_agents_node_has_the_check_that_is_meant_if_none_are_named) {
  const node h(consul);
  const auto created = [&](const std::string& more) {
    return consul.create_session(R"({"Node":")" + h.name() + '"' + more + '}');
  };
  const std::string missing = consul.session_failed() + "Missing check 'serfHealth' registration";
  BOOST_TEST(created("").said() == missing);
  BOOST_TEST(created(R"(,"NodeChecks":["serfHealth"])").said() == missing);
  BOOST_TEST(created(R"(,"NodeChecks":[])").status == 200);
  BOOST_TEST(created(R"(,"NodeChecks":null)").status == 200);
}

FACT(the_ttl_and_the_behavior_are_looked_at_before_the_node) {
  BOOST_TEST(consul.create_session(R"({"Node":"none","TTL":"1ms"})").said().starts_with("500 Invalid Session TTL"));
  BOOST_TEST(consul.create_session(R"({"Node":"none","Behavior":"zz"})").said() == "500 Invalid Behavior setting 'zz'");
  BOOST_TEST(consul.create_session(R"({"Node":"none","NodeChecks":["zz"]})").said() ==
             consul.session_failed() + missing_node);
}

FACT(each_node_lists_its_own_sessions) {
  const node a(consul, "a"), b(consul, "b");
  const auto first = a.session(), second = a.session(), other = b.session();
  const auto list = consul.request("GET", a.sessions());
  BOOST_TEST(list.size() == 2u);
  BOOST_TEST(list.body.find(first) != std::string::npos);
  BOOST_TEST(list.body.find(second) != std::string::npos);
  BOOST_TEST(consul.request("GET", b.sessions()).json() == json::array({consul.session_info(other)}));
  BOOST_TEST(list.index() == index_of_sessions(consul));
}

// --- The end of a node

FACT(a_node_that_is_deregistered_takes_its_sessions_along) {
  const node h(consul);
  const auto with_ttl = h.session({{"TTL", "1h"}}), without = h.session(), other = consul.session();
  h.deregister();
  BOOST_TEST(consul.info(with_ttl).said() == "200 []");
  BOOST_TEST(consul.info(without).said() == "200 []");
  BOOST_TEST(consul.renew(with_ttl).said() == "404 Session id '" + with_ttl + "' not found");
  BOOST_TEST(consul.request("GET", h.sessions()).said() == "200 []");
  BOOST_TEST(h.read().said() == "200 null");
  BOOST_TEST(consul.renew(other).status == 200);
}

FACT(the_node_its_sessions_and_their_locks_go_at_one_index) {
  const node h(consul);
  const auto one = h.session(), two = h.session();
  consul.put("a?acquire=" + one, "v");
  consul.put("b?acquire=" + two, "w");
  h.deregister();
  const auto index = all_nodes(consul).index();
  BOOST_TEST(index_of_sessions(consul) == index);
  for (const auto* key : {"a", "b"}) {
    const auto entry = consul.read(key);
    BOOST_TEST(entry.session == "");
    BOOST_TEST(entry.modified == index);
    BOOST_TEST(entry.locked == 1u);
  }
}

FACT(a_node_without_sessions_leaves_the_index_of_sessions_alone) {
  const node h(consul);
  const auto before = index_of_sessions(consul);
  h.deregister();
  BOOST_TEST(index_of_sessions(consul) == before);
}

FACT(there_are_no_sessions_on_it_until_it_is_registered_again_and_never_the_old_ones) {
  const node h(consul);
  const auto id = h.session();
  h.deregister();
  const std::string body = R"({"Node":")" + h.name() + R"(","NodeChecks":[]})";
  BOOST_TEST(consul.create_session(body).said() == consul.session_failed() + missing_node);
  const node again(consul);
  BOOST_TEST(consul.info(id).said() == "200 []");
  BOOST_TEST(consul.create_session(body).status == 200);
}

FACT(its_end_wakes_who_asks_for_its_sessions_and_their_keys) {
  const node h(consul);
  const auto releases = h.session(), deletes = h.session({{"Behavior", "delete"}});
  consul.put("a?acquire=" + releases, "v");
  consul.put("b?acquire=" + deletes, "w");
  const auto ask = [&](const std::string& target) {
    return consul.watch_target(target, consul.request("GET", target).index());
  };
  auto info = ask("/v1/session/info/" + releases), list = ask("/v1/session/list"), of_node = ask(h.sessions());
  auto released = consul.watch("a"), deleted = consul.watch("b"), below = consul.watch("?recurse");
  auto nodes = ask("/v1/catalog/nodes");
  for (const auto* each : {&info, &list, &of_node, &released, &deleted, &below, &nodes})
    BOOST_TEST(each->still_waits());
  h.deregister();
  const auto index = all_nodes(consul).index();
  BOOST_TEST(info.woken().said() == "200 []");
  BOOST_TEST(list.woken().index() == index);
  BOOST_TEST(of_node.woken().said() == "200 []");
  BOOST_TEST(released.woken().index() == index);
  BOOST_TEST(deleted.woken().status == 404);
  BOOST_TEST(below.woken().entries().size() == 1u);
  BOOST_TEST(nodes.woken().index() == index);
}

FACT(its_end_wakes_who_asks_for_the_sessions_of_the_one_other_node_of_a_similar_name) {
  const node h(consul, "h"), other(consul, "other");
  h.session();
  other.session();
  auto list = consul.watch_target(other.sessions(), index_of_sessions(consul));
  BOOST_TEST(list.still_waits());
  h.deregister();
  BOOST_TEST(list.woken().size() == 1u);
}

FACT(its_end_does_not_wake_who_asks_for_other_nodes_or_their_sessions) {
  const node h(consul, "h"), other(consul, "other"), third(consul, "third");
  h.session();
  third.session();
  const auto id = other.session();
  other.session();
  const auto ask = [&](const std::string& target) {
    return consul.watch_target(target, consul.request("GET", target).index());
  };
  auto info = ask("/v1/session/info/" + id), of_node = ask(other.sessions()), node = ask(other.target());
  h.deregister();
  for (const auto* each : {&info, &of_node, &node}) BOOST_TEST(each->still_waits());
  consul.destroy(id);
  BOOST_TEST(info.woken().said() == "200 []");
  BOOST_TEST(of_node.woken().size() == 1u);
}

FACT(registering_the_same_again_wakes_nobody) {
  const node h(consul);
  const auto id = h.session();
  const auto before = all_nodes(consul).index();
  auto nodes = consul.watch_target("/v1/catalog/nodes", before), node = consul.watch_target(h.target(), before);
  auto info = consul.watch_target("/v1/session/info/" + id, index_of_sessions(consul));
  register_node(consul, h.name());
  for (const auto* each : {&nodes, &node, &info}) BOOST_TEST(each->still_waits());
  register_node(consul, h.name(), "127.0.0.2");
  BOOST_TEST(node.woken().json().at("Node").at("Address") == "127.0.0.2");
  BOOST_TEST(nodes.woken().index() > before);
  BOOST_TEST(info.still_waits());
}

// Before 1.13 a deleted node has the index 1, which is not above any other.
FACT(who_asks_for_a_node_is_told_that_it_comes_and_from_1_13_on_that_it_goes) {
  const node h(consul);
  auto goes = consul.watch_target(h.target(), h.read().index());
  h.deregister();
  if (consul.is_from(13)) {
    const auto gone = goes.woken();
    BOOST_TEST(gone.said() == "200 null");
    BOOST_TEST(gone.index() == all_nodes(consul).index());
  } else {
    BOOST_TEST(goes.still_waits());
  }
  auto comes = consul.watch_target(h.target(), h.read().index());
  BOOST_TEST(comes.still_waits());
  const node again(consul);
  BOOST_TEST(comes.woken().json().at("Node") == h.info());
  if (!consul.is_from(13)) BOOST_TEST(goes.woken().json().at("Node") == h.info());
}

FACT(a_nodes_list_wakes_when_one_of_its_sessions_comes_and_not_for_another_node) {
  const node a(consul, "a"), b(consul, "b");
  a.session();
  auto list = consul.watch_target(a.sessions(), index_of_sessions(consul));
  b.session();  // the first of that node
  BOOST_TEST(list.woken().size() == 1u);
  auto again = consul.watch_target(a.sessions(), index_of_sessions(consul));
  b.session();
  consul.session();
  BOOST_TEST(again.still_waits());
  const auto id = a.session();
  BOOST_TEST(again.woken().body.find(id) != std::string::npos);
}

// --- The agent's own node. Consul registers it again within a minute; unit tests see the model do that.

LONELY_FACT(the_agents_node_takes_its_sessions_along_too) {
  const auto name = own_node(consul);
  const node h(consul);
  const auto checked = consul.session({{"NodeChecks", json::array({"serfHealth"})}}), unchecked = consul.session();
  const auto elsewhere = h.session();
  consul.put("a?acquire=" + checked, "v");
  BOOST_TEST(deregister_node(consul, name).said() == "200 true");
  BOOST_TEST(consul.info(checked).said() == "200 []");
  BOOST_TEST(consul.info(unchecked).said() == "200 []");
  BOOST_TEST(consul.read("a").session == "");
  const auto gone = consul.read("a").modified;
  BOOST_TEST(gone == index_of_sessions(consul));
  // A real agent may be back already. Its registration has an index of its own, which is the next one.
  const auto nodes = all_nodes(consul);
  BOOST_TEST((nodes.body.find('"' + name + '"') == std::string::npos ? nodes.index() == gone : nodes.index() > gone));
  BOOST_TEST(consul.renew(elsewhere).status == 200);
}

LONELY_FACT(until_it_is_back_the_agents_node_has_no_sessions_and_others_have) {
  const auto name = own_node(consul);
  std::vector<std::string> answers;
  bool is_missing = false;
  for (int tries = 0; tries != 5 && !is_missing; ++tries) {  // the agent may register its node at any moment
    deregister_node(consul, name);
    answers.clear();
    for (const auto* body : {"", "{}", R"({"NodeChecks":[]})"}) answers.push_back(consul.create_session(body).said());
    is_missing = consul.request("GET", "/v1/catalog/node/" + name).said() == "200 null";
  }
  BOOST_TEST(is_missing);
  for (const auto& each : answers) BOOST_TEST(each == consul.session_failed() + missing_node);
  const node h(consul);
  BOOST_TEST(consul.renew(h.session()).status == 200);
}

LONELY_FACT(the_agents_node_when_registered_by_hand_has_sessions_without_checks) {
  const auto name = own_node(consul);
  deregister_node(consul, name);
  BOOST_TEST(register_node(consul, name, consul.host().c_str()).said() == "200 true");
  BOOST_TEST(consul.create_session("").said() == consul.session_failed() + "Missing check 'serfHealth' registration");
  BOOST_TEST(consul.create_session(R"({"NodeChecks":[]})").status == 200);
}

BOOST_AUTO_TEST_SUITE_END()

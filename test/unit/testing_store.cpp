// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/testing/store.hpp>
#include <string>

using namespace holdfast::testing;
using namespace std::chrono_literals;
using holdfast::consul::session_info;
using holdfast::consul::txn_operation;

namespace {

constexpr store::time_point start{1000s};

session_info session_on(const std::string& node, char digit, bool checked = false) {
  session_info session;
  session.id = std::string(36, digit);
  session.node = node;
  session.ttl = 10s;
  if (checked) session.node_checks = {"serfHealth"};
  return session;
}

struct world {
  store model{{.node = "Agent"}};

  bool create(const session_info& session, store::time_point now = start) {
    return !model.create_session(session, now).has_value();
  }
  bool lives(const session_info& session) const { return model.session(session.id).value.has_value(); }
};

}  // namespace

// Tests that take time or need an operator. test/conformance and test/differential compare the rest with a real agent.
BOOST_AUTO_TEST_SUITE(testing_store)

BOOST_FIXTURE_TEST_CASE(the_agents_node_is_there_from_the_beginning, world) {
  BOOST_TEST_REQUIRE(model.nodes().value.size() == 1u);
  const node_info own = *model.node("agent").value;
  BOOST_TEST(own.name == "Agent");
  BOOST_TEST(own.serf_health);
  BOOST_TEST(own.create_index == model.raft_index());
  BOOST_TEST(create(session_on("", '1', true)));
  BOOST_TEST(model.session(std::string(36, '1')).value->node == "Agent");
}

BOOST_FIXTURE_TEST_CASE(the_agents_node_comes_back_by_itself_and_its_sessions_do_not, world) {
  auto early = session_on("", '1');
  early.ttl = 0s;  // nor does it end by itself
  BOOST_TEST(create(early));
  model.deregister_node("AGENT", start);
  BOOST_TEST(!lives(early));
  const auto due = start + model.options().node_returns_after;
  BOOST_TEST((model.next_deadline() == due));
  model.advance(due - 1ns);
  BOOST_TEST(!create(session_on("", '2'), due - 1ns));

  const auto watch = model.watch({subject::kind::node, "agent"});
  model.advance(due);
  BOOST_TEST((model.take_fired() == std::vector{watch}));
  BOOST_TEST((model.next_deadline() == store::time_point::max()));
  BOOST_TEST(model.node("agent").value->create_index == model.raft_index());
  BOOST_TEST(create(session_on("", '2', true), due));
  BOOST_TEST(!lives(early));
}

BOOST_FIXTURE_TEST_CASE(the_agents_node_registered_by_hand_keeps_its_sessions_when_the_agent_is_back, world) {
  model.deregister_node("Agent", start);
  BOOST_TEST(!model.register_node("Agent", "10.0.0.1", start));
  const auto created = model.raft_index();
  const auto early = session_on("Agent", '1');
  BOOST_TEST(create(early));
  BOOST_TEST(!create(session_on("Agent", '2', true)));

  const auto due = start + model.options().node_returns_after;
  BOOST_TEST(model.renew_session(early.id, due - 1s));
  model.advance(due);
  const node_info own = *model.node("Agent").value;
  BOOST_TEST(own.create_index == created);
  BOOST_TEST(own.modify_index == model.raft_index());
  BOOST_TEST(lives(early));
  BOOST_TEST(create(session_on("Agent", '2', true), due));
}

BOOST_FIXTURE_TEST_CASE(other_nodes_do_not_come_back, world) {
  BOOST_TEST(!model.register_node("h", "x", start));
  model.deregister_node("h", start);
  BOOST_TEST((model.next_deadline() == store::time_point::max()));
  model.advance(start + 24h);
  BOOST_TEST(!model.node("h").value);
}

BOOST_FIXTURE_TEST_CASE(a_failed_check_of_the_agents_node_leaves_other_nodes_sessions_alone, world) {
  BOOST_TEST(!model.register_node("h", "x", start));
  const auto elsewhere = session_on("h", '1'), checked = session_on("", '2', true);
  BOOST_TEST(create(elsewhere));
  BOOST_TEST(create(checked));
  model.fail_node(start);
  BOOST_TEST(lives(elsewhere));
  BOOST_TEST(!lives(checked));
}

BOOST_FIXTURE_TEST_CASE(a_restored_snapshot_brings_its_nodes_and_their_sessions, world) {
  BOOST_TEST(!model.register_node("h", "x", start));
  const auto early = session_on("h", '1');
  BOOST_TEST(create(early));
  BOOST_TEST(model.write(txn_operation::lock("a", "v", early.id), start).done);
  const store image = model;

  model.deregister_node("h", start);
  model.deregister_node("agent", start);
  BOOST_TEST(!model.register_node("late", "x", start));
  const auto index = model.raft_index();
  const auto watch = model.watch({subject::kind::nodes, {}});
  model.restore(image);
  BOOST_TEST((model.take_fired() == std::vector{watch}));
  BOOST_TEST(model.raft_index() == index);
  BOOST_TEST((model.nodes().value == image.nodes().value));
  BOOST_TEST(model.get("a").value->session == early.id);
  BOOST_TEST((model.next_deadline() == image.next_deadline()));

  model.deregister_node("h", start);
  BOOST_TEST(!lives(early));
  BOOST_TEST(model.get("a").value->session == "");
}

BOOST_FIXTURE_TEST_CASE(each_write_to_the_catalog_is_a_step_of_the_index_also_if_it_changes_nothing, world) {
  auto index = model.raft_index();
  BOOST_TEST(!model.register_node("h", "x", start));
  BOOST_TEST(!model.register_node("h", "x", start));
  model.deregister_node("none", start);
  BOOST_TEST(!create(session_on("none", '1')));  // Raft has had to say so
  BOOST_TEST(!create(session_on("h", '1', true)));
  BOOST_TEST(model.raft_index() == index + 5);
  BOOST_TEST(model.nodes().meta.index == index + 1);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>

#include "protocol/record/entry_value.hpp"
#include "support/pool_story.hpp"

// Sessions end with their node. The process that created one believes in it for a while longer.

namespace {

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

/// Entries of other processes contain what ours contain, and for how long their processes may believe.
struct node_story : pool_story {
  explicit node_story(pool_options o = with(usual(), [](pool_options& each) { each.wall_offset = 0s; }))
      : pool_story(std::move(o)) {}
  /// Another process queues, with a TTL of 20 s and a margin of 2 s.
  void another_joins(std::string_view node = default_session_node) {
    const bool is_there = consul.store.node(node).value.has_value();
    const std::string id = consul.create_session(1h, now, {}, is_there ? node : "");
    const std::string words = with_stamp("other", now.time_since_epoch(), entry_lease{20s, 2s, node});
    consul.transact({{kv_verb::lock, "p/" + id, words, contender_magic, 0, id}}, now);
  }
  /// The other process holds, and we wait and have seen that. Then its session ends.
  void its_session_ends_before_us() {
    record_becomes("s1", 1);
    hold();
    run();
    BOOST_REQUIRE(entries() == "s1 s2");
    consul.destroy_session(real("s1"), now);
  }
  bool is_granted() { return says(run(), "grant t"); }
  /// Makes the node's CreateIndex lower than all later ones.
  void node_is_registered() { consul.register_node(default_session_node, now); }
  void node_is_registered_anew() {
    consul.deregister_node(default_session_node, now);
    node_is_registered();
  }
  bool is_granted_after(duration d) {
    after(d);
    return is_granted();
  }
  bool is_granted_within(int seconds) {
    while (seconds-- != 0)
      if (is_granted_after(1s)) return true;
    return false;
  }
};

/// A mutex, or a semaphore of one slot, that this process has used. Its session is idle since then.
struct idle : node_story {
  explicit idle(bool is_mutex, bool with_node = false)
      : node_story(with(is_mutex ? usual_mutex() : usual(), [](pool_options& o) {
          o.wall_offset = 0s;
          o.session_idle_timeout = 10s;
        })) {
    if (with_node) node_is_registered();
    hold();
    go('A');
  }
  /// Lets time pass, almost until the idle session would be ended.
  void grows_old() {
    for (int i = 0; i != 39; ++i) go_on(250ms);
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_nodes, node_story)

BOOST_AUTO_TEST_CASE(the_agents_own_node_is_not_registered_by_us) {
  pool_story s(with(usual(), [](pool_options& o) { o.node.clear(); }));
  s.look(1);
  EXPECT(s.create_fails(error::missing_node));
  EXPECT(s.after(20ms), "create m2");
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_node_or_of_its_agents_own_keeps_its_slot_for_its_lease) {
  for (const std::string_view node : {"elsewhere", ""}) {
    node_story s;
    s.another_joins(node);
    s.its_session_ends_before_us();
    BOOST_TEST(!s.is_granted());
    BOOST_TEST(!s.is_granted_within(19));
    BOOST_TEST(s.is_granted_within(3));
  }
}

// --- Since when the node has stood, by Consul's catalog

BOOST_AUTO_TEST_CASE(the_node_is_read_once_and_only_where_somebody_is_spared) {
  const auto reads = [](const lines& all) {
    return std::count_if(all.begin(), all.end(),
                         [](const std::string& each) { return each.ends_with(" node holdfast-sessions"); });
  };
  node_is_registered();
  another_joins();
  record_becomes("s1", 1);
  hold();
  run();
  BOOST_TEST(reads(go_on(1s)) == 0);
  node_is_registered_anew();  // so that the holder is spared all the same
  consul.destroy_session(real("s2"), now);
  BOOST_TEST(reads(run()) == 1);
  lines all;
  for (int i = 0; i != 10; ++i) append(all, go_on(1s));
  BOOST_TEST(reads(all) == 0);
}

BOOST_AUTO_TEST_CASE(a_node_that_may_not_be_read_or_is_not_there_says_nothing) {
  for (const bool is_hidden : {false, true}) {
    node_story s;
    if (is_hidden) s.node_is_registered();
    s.another_joins();
    s.its_session_ends_before_us();
    s.may_read_nodes = false;
    s.consul.destroy_session(s.real("s2"), s.now);
    BOOST_TEST(!s.is_granted());
    BOOST_TEST(!s.is_granted_within(19));
    BOOST_TEST(s.is_granted_within(3));
  }
}

// --- A session that we end ourselves

BOOST_AUTO_TEST_CASE(an_idle_session_is_renewed_before_it_is_ended) {
  idle s(true);
  s.grows_old();
  pool_story::lines all = s.after(2s);
  BOOST_TEST(last_of(all) == "renew s1");
  BOOST_TEST(s.pool().status().sessions == 1u);
  EXPECT(s.renewed(), "destroy s1");
}

BOOST_AUTO_TEST_SUITE_END()

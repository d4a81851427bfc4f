#include <boost/test/unit_test.hpp>

#include "protocol/succession.hpp"
#include "support/pool_story.hpp"

// Sessions end with their node. Whoever made one goes on to believe for a while.

namespace {

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

/// Others' entries say what ours say, and for how long their makers may believe.
struct node_story : pool_story {
  node_story() : pool_story(with(usual(), [](pool_options& o) { o.wall_offset = 0s; })) {}
  /// Another process queues, with a TTL of 20 s and a margin of 2 s.
  void another_joins(std::string_view node = usual_node) {
    const std::string id = consul.create_session(1h, now);
    const std::string words = with_stamp("other", now.time_since_epoch(), entry_lease{20s, 2s, node});
    consul.transact({{kv_verb::lock, "p/" + id, words, contender_magic, 0, id}}, now);
  }
  /// It holds, and we wait, and have seen that. Then its session ends.
  void its_session_ends_before_us() {
    record_becomes("s1", 1);
    hold();
    run();
    BOOST_REQUIRE(entries() == "s1 s2");
    consul.destroy_session(real("s1"), now);
  }
  bool is_granted() { return says(run(), "grant t"); }
  bool is_granted_after(duration d) {
    after(d);
    return is_granted();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_nodes, node_story)

BOOST_FIXTURE_TEST_CASE(a_missing_node_is_registered_once_and_the_session_created_again, pool_story) {
  look(1);
  EXPECT(create_fails(error::missing_node), "register node");
  EXPECT(tell(event::node_registered{}), "create m1");
  EXPECT(create_fails(error::missing_node));  // somebody deregisters it: again, after a pause
  EXPECT(after(20ms), "create m2");
  EXPECT(create_fails(error::missing_node), "register node");
  EXPECT(tell(event::node_registered{}), "create m2");
  EXPECT(created(), "txn #2: cas @0 {s1} | lock s1");
}

BOOST_AUTO_TEST_CASE(who_may_not_register_the_node_is_told_the_two_rules) {
  look(1);
  create_fails(error::missing_node);
  EXPECT(tell(event::node_registered{{make_error_code(error::permission_denied), {"no", {}, {}, {}}}}),
         "fail t1 the ACL token is missing, unknown or lacks the right");
  const std::string words = std::get<action::fail>(actions().back()).error.details.message;
  for (const std::string kind : {"session", "node"})
    BOOST_TEST(words.find(kind + " \"holdfast-sessions\" { policy = \"write\" }") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(the_agents_own_node_is_not_registered_by_us) {
  pool_story s(with(usual(), [](pool_options& o) { o.node.clear(); }));
  s.look(1);
  EXPECT(s.create_fails(error::missing_node));
  EXPECT(s.after(20ms), "create m2");
}

/// Other clients' have no lease that anybody could know of.
BOOST_AUTO_TEST_CASE(a_holder_that_ends_alone_or_is_another_clients_is_followed_at_once) {
  for (const bool is_another_clients : {false, true}) {
    node_story s;
    if (is_another_clients)
      s.others_join();
    else
      s.another_joins();
    s.its_session_ends_before_us();
    BOOST_TEST(s.is_granted());
  }
}

/// All sessions of the node end at once, ours too.
BOOST_AUTO_TEST_CASE(a_holder_that_ends_with_the_node_keeps_its_slot_for_its_lease) {
  another_joins();
  its_session_ends_before_us();
  consul.destroy_session(real("s2"), now);
  BOOST_TEST(!is_granted());
  for (int i = 0; i < 19; ++i) BOOST_TEST(!is_granted_after(1s));
  BOOST_TEST((is_granted_after(1s) || is_granted_after(1s) || is_granted_after(1s)));
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_node_or_of_its_agents_own_keeps_its_slot_for_its_lease) {
  for (const std::string_view node : {"elsewhere", ""}) {
    node_story s;
    s.another_joins(node);
    s.its_session_ends_before_us();
    BOOST_TEST(!s.is_granted());
    BOOST_TEST(!s.is_granted_after(19s));
    BOOST_TEST(s.is_granted_after(2s));
  }
}

BOOST_AUTO_TEST_SUITE_END()

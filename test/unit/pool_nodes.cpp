#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "protocol/succession.hpp"
#include "support/pool_story.hpp"

// Sessions end with their node. Whoever made one goes on to believe for a while.

BOOST_AUTO_TEST_SUITE(pool_nodes)

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// Others' entries say what ours say, and for how long their makers may believe.
struct node_story : pool_story {
  node_story() : pool_story(timed()) {}
  static pool_options timed() {
    pool_options o = usual();
    o.wall_offset = 0s;
    return o;
  }
  /// Another process queues, with a TTL of 20 s and a margin of 2 s.
  std::string another_joins(std::string_view node = usual_node) {
    const std::string id = consul.create_session(1h, now);
    const std::string words = with_stamp("other", now.time_since_epoch(), entry_lease{20s, 2s, node});
    consul.transact({{kv_verb::lock, "p/" + id, words, contender_magic, 0, id}}, now);
    return others_name(id);
  }
  std::string others_name(const std::string& id) {
    for (int i = 1; i < 100; ++i)
      if (real("s" + std::to_string(i)) == id) return "s" + std::to_string(i);
    return {};
  }
  /// We wait, and have seen the other hold.
  void wait_behind(const std::string& other) {
    record_becomes(other, 1);
    acquire(1);
    listed();
    created();
    done();
    run();
    BOOST_REQUIRE(entries() == other + " s2");
  }
  bool is_granted(const std::vector<std::string>& said) const {
    return std::any_of(said.begin(), said.end(), [](const std::string& each) { return each.starts_with("grant t"); });
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_missing_node_is_registered_once_and_the_session_created_again) {
  pool_story s;
  s.acquire(1);
  s.listed();
  EXPECT(s.create_fails(error::missing_node), "register node");
  EXPECT(s.tell(event::node_registered{}), "create m1");
  EXPECT(s.create_fails(error::missing_node));  // somebody deregisters it: again, after a pause
  EXPECT(s.after(20ms), "create m2");
  EXPECT(s.create_fails(error::missing_node), "register node");
  EXPECT(s.tell(event::node_registered{}), "create m2");
  EXPECT(s.created(), "txn #2: cas @0 {s1} | lock s1");
}

BOOST_AUTO_TEST_CASE(who_may_not_register_the_node_is_told_the_two_rules) {
  pool_story s;
  s.acquire(1);
  s.listed();
  s.create_fails(error::missing_node);
  EXPECT(s.tell(event::node_registered{{make_error_code(error::permission_denied), {"no", {}, {}, {}}}}),
         "fail t1 the ACL token is missing, unknown or lacks the right");
  const std::string words = std::get<action::fail>(s.actions().back()).error.details.message;
  BOOST_TEST(words.find("session \"holdfast-sessions\" { policy = \"write\" }") != std::string::npos, words);
  BOOST_TEST(words.find("node \"holdfast-sessions\" { policy = \"write\" }") != std::string::npos, words);
}

BOOST_AUTO_TEST_CASE(the_agents_own_node_is_not_registered_by_us) {
  pool_options o = pool_story::usual();
  o.node.clear();
  pool_story s(o);
  s.acquire(1);
  s.listed();
  EXPECT(s.create_fails(error::missing_node));
  EXPECT(s.after(20ms), "create m2");
}

BOOST_AUTO_TEST_CASE(a_holder_that_ends_alone_is_followed_at_once) {
  node_story s;
  const std::string other = s.another_joins();
  s.wait_behind(other);
  s.consul.destroy_session(s.real(other), s.now);
  BOOST_TEST(s.is_granted(s.run()));
}

/// All sessions of the node end at once, ours too.
BOOST_AUTO_TEST_CASE(a_holder_that_ends_with_the_node_keeps_its_slot_for_its_lease) {
  node_story s;
  const std::string other = s.another_joins();
  s.wait_behind(other);
  s.consul.destroy_session(s.real(other), s.now);
  s.consul.destroy_session(s.real("s2"), s.now);
  BOOST_TEST(!s.is_granted(s.run()));
  for (int i = 0; i < 19; ++i) {
    s.after(1s);
    BOOST_TEST(!s.is_granted(s.run()));
  }
  bool granted = false;
  for (int i = 0; i < 3 && !granted; ++i) {
    s.after(1s);
    granted = s.is_granted(s.run());
  }
  BOOST_TEST(granted);
}

BOOST_AUTO_TEST_CASE(a_holder_of_another_node_or_of_its_agents_own_keeps_its_slot_for_its_lease) {
  for (const std::string_view node : {"elsewhere", ""}) {
    node_story s;
    const std::string other = s.another_joins(node);
    s.wait_behind(other);
    s.consul.destroy_session(s.real(other), s.now);
    BOOST_TEST(!s.is_granted(s.run()));
    s.after(19s);
    BOOST_TEST(!s.is_granted(s.run()));
    s.after(2s);
    BOOST_TEST(s.is_granted(s.run()));
  }
}

/// They have no lease that anybody could know of.
BOOST_AUTO_TEST_CASE(other_clients_holders_are_followed_at_once) {
  node_story s;
  const std::string other = s.others_join();
  s.wait_behind(other);
  s.consul.destroy_session(s.real(other), s.now);
  BOOST_TEST(s.is_granted(s.run()));
}

BOOST_AUTO_TEST_SUITE_END()

// Programs that know all three servers, with no agent of their own between. Any one of the servers may die or stand
// still, and it costs nobody a slot.

#include <boost/test/unit_test.hpp>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(failover)

namespace {

/// An election, and what the clients add.
constexpr auto turns_bound = 20s;

enum class which { leader, follower };

/// Two processes, which ask that server first, hand a slot from one to the other all the time.
void check(const std::string& name, which role, const std::function<void(agent&)>& fault,
           const std::function<void(agent&)>& mend) {
  cluster consul(0);
  stage play(name, 1, 1, turns_bound);
  const int leads = consul.leader();
  const int victim = role == which::leader ? leads : (leads + 1) % cluster::server_count;
  worker_options each{.coroutines = 1, .hold = 300ms, .outage_grace = 1h, .ttl = 15s};
  for (int i = 0; i != cluster::server_count; ++i) {
    each.agent += (i == 0 ? "" : ",") + consul.server((victim + i) % cluster::server_count).address();
  }
  play.start("one", each);
  play.start("two", each);
  play.until_entered({"one", "two"}, {}, turns_bound, 2);
  const auto since = play.fault("the server that is asked: " + name);
  fault(consul.server(victim));
  play.until_entered({"one", "two"}, since, turns_bound, 5);
  mend(consul.server(victim));
  consul.wait_until_healthy();
  const auto after = play.mended("it is back");
  play.until_entered({"one", "two"}, after, turns_bound, 5);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
  BOOST_TEST(shown.lost == 0u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_leader_is_killed) {
  check(
      "failover-leader-killed", which::leader, [](agent& a) { a.kill(); }, [](agent& a) { a.restart(); });
}

BOOST_AUTO_TEST_CASE(the_leader_stands_still) {
  check(
      "failover-leader-frozen", which::leader, [](agent& a) { a.freeze(); }, [](agent& a) { a.thaw(); });
}

BOOST_AUTO_TEST_CASE(a_follower_is_killed) {
  check(
      "failover-follower-killed", which::follower, [](agent& a) { a.kill(); }, [](agent& a) { a.restart(); });
}

BOOST_AUTO_TEST_CASE(a_follower_stands_still) {
  check(
      "failover-follower-frozen", which::follower, [](agent& a) { a.freeze(); }, [](agent& a) { a.thaw(); });
}

BOOST_AUTO_TEST_SUITE_END()

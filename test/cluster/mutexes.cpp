// A mutex under the faults that a semaphore has suites of its own for.

#include <boost/test/unit_test.hpp>
#include <chrono>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(mutexes)

BOOST_AUTO_TEST_CASE(the_holders_agent_is_frozen) {
  cluster consul(1);
  stage play("mutex-frozen-agent", 1);
  agent& frozen = consul.client(0);
  worker_options holder{.agent = frozen.address(), .coroutines = 1, .hold = 1h, .outage_grace = 1h, .mutex = true};
  play.start("holder", holder);
  play.until_entered({"holder"}, {}, grant_bound);
  play.start("waiter", worker_options{.agent = consul.server(0).address(), .coroutines = 1, .hold = 1h, .mutex = true});
  play.until_written("it waits", grant_bound, [](const journal_entry& each) {
    return each.who == "waiter" && each.what == journal_event::asked;
  });
  const auto since = play.fault("the client agent is frozen", {"holder"});
  frozen.freeze();
  play.until_entered({"waiter"}, since, grant_bound);
  frozen.thaw();
  consul.wait_until_healthy();
  play.mended("the client agent goes on", {"holder"});
  play.until_written("the holder has been told", grant_bound, [](const journal_entry& each) {
    return each.who == "holder" && each.what == journal_event::lost;
  });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_CASE(kill_9_of_the_leader_and_of_a_client_agent) {
  cluster consul(2);
  stage play("mutex-kill", 1);
  start_one_at_each_agent(play, consul, 2, nullptr, {.mutex = true});
  play.until_entered(play.names(), {}, grant_bound);
  const int its = consul.leader();
  agent& leader = consul.server(its);
  check_that_work_goes_on(
      play, consul,
      {at_server(its), "leader killed", "leader restarted", [&] { leader.kill(); }, [&] { leader.restart(); }});
  agent& client = consul.client(0);
  check_that_work_goes_on(play, consul,
                          {at_client(0), "client agent killed", "client agent restarted", [&] { client.kill(); },
                           [&] { client.restart(); }});
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 1u);
}

BOOST_AUTO_TEST_SUITE_END()

// Programs that know all three servers, with no agent of their own between. Any one of the servers may die, stand still
// or be cut off, or be restarted, and it costs nobody a slot.

#include <boost/test/unit_test.hpp>
#include <optional>

#include "cluster/support/cluster.hpp"
#include "cluster/support/network.hpp"
#include "cluster/support/stage.hpp"
#include "support/certificates.hpp"
#include "support/temporary_folder.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(failover)

namespace {

enum class role { leader, follower };
enum class fault { killed, frozen, cut_off };

struct variant {
  std::string name;
  bool tls = false;
  std::string config = "{}";  ///< of the servers
  std::chrono::milliseconds ttl = 15s;
  std::chrono::milliseconds turns_bound = 20s;  ///< an election, and what the clients add
};

const variant plain{""};
const variant secured{.name = "-tls", .tls = true};
/// Elections of 12 to 16 s. A shorter TTL than this may end while there is no leader.
const variant slow{
    .name = "-raft-multiplier-5", .config = R"({"performance":{"raft_multiplier":5}})", .ttl = 30s, .turns_bound = 45s};

/// A cluster, and two processes that hand one slot from one to the other all the time, each by any of the servers.
class scene {
public:
  scene(const std::string& name, const variant& with, bool has_network)
      : with_(with), play_("failover-" + name + with.name, 1, 1, with.turns_bound) {
    if (has_network) net_.emplace(cluster::server_count + 2);
    std::string tls;
    if (with.tls) {
      const identity own = ca_.issue({{"server.dc1.consul", "localhost"}});
      tls = "{\"cert_file\":\"" + files_.write("server.pem", own.certificate) + "\",\"key_file\":\"" +
            files_.write("server.key", own.key) + "\",\"ca_file\":\"" + files_.write("ca.pem", ca_.certificate()) +
            "\"}";
    }
    consul_.emplace(0, net_ ? &*net_ : nullptr, false, with.config, tls);
  }

  cluster& consul() { return *consul_; }
  network& net() { return *net_; }
  stage& play() { return play_; }

  /// Both ask that server first.
  void begin(int first) {
    worker_options each{.coroutines = 1, .hold = 300ms, .outage_grace = 1h, .ttl = with_.ttl};
    for (int i = 0; i != cluster::server_count; ++i) {
      const agent& server = consul().server((first + i) % cluster::server_count);
      each.agent += (i == 0 ? "" : ",") + (with_.tls ? server.tls_url() : server.address());
    }
    if (with_.tls) {
      each.ca_file = files_.path() + "/ca.pem";
      each.server_name = "server.dc1.consul";
    }
    for (int i = 0; i != 2; ++i) {
      if (net_) each.launcher = net_->inside(cluster::server_count + 1 + i);
      play_.start(i == 0 ? "one" : "two", each);
    }
    handed_on({}, 2);
  }
  void handed_on(stage::time_point since, std::size_t times = 5) {
    play_.until_entered({"one", "two"}, since, with_.turns_bound, times);
  }
  void end() {
    const verdict shown = play_.end();
    BOOST_TEST(shown.believers_max == 1u);
    BOOST_TEST(shown.lost == 0u);
  }

private:
  const variant& with_;
  const temporary_folder files_;
  const authority ca_;
  std::optional<network> net_;
  std::optional<cluster> consul_;
  stage play_;
};

void check(role whose, fault what, const variant& with) {
  const std::string name =
      std::string(whose == role::leader ? "leader" : "follower") + (what == fault::killed   ? "-killed"
                                                                    : what == fault::frozen ? "-frozen"
                                                                                            : "-cut-off");
  scene all(name, with, what == fault::cut_off);
  const int leads = all.consul().leader();
  const int victim = whose == role::leader ? leads : (leads + 1) % cluster::server_count;
  agent& server = all.consul().server(victim);
  all.begin(victim);
  const auto since = all.play().fault("the server that is asked: " + name);
  if (what == fault::killed) server.kill();
  if (what == fault::frozen) server.freeze();
  if (what == fault::cut_off) all.net().cut(victim + 1);
  all.handed_on(since);
  if (what == fault::killed) server.restart();
  if (what == fault::frozen) server.thaw();
  if (what == fault::cut_off) all.net().mend();
  all.consul().wait_until_healthy();
  all.handed_on(all.play().mended("it is back"));
  all.end();
}

void check_rolling_restart(const variant& with) {
  scene all("rolling-restart", with, false);
  all.begin(0);
  for (int i = 0; i != cluster::server_count; ++i) {
    const std::string words = "server " + std::to_string(i + 1);
    const auto since = all.play().fault(words + " stopped");
    all.consul().server(i).stop();
    all.handed_on(since);
    all.consul().server(i).restart();
    all.consul().wait_until_healthy();
    all.handed_on(all.play().mended(words + " restarted"));
  }
  all.end();
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_leader_is_killed) { check(role::leader, fault::killed, plain); }
BOOST_AUTO_TEST_CASE(the_leader_stands_still) { check(role::leader, fault::frozen, plain); }
BOOST_AUTO_TEST_CASE(the_leader_is_cut_off) { check(role::leader, fault::cut_off, plain); }
BOOST_AUTO_TEST_CASE(a_follower_is_killed) { check(role::follower, fault::killed, plain); }
BOOST_AUTO_TEST_CASE(a_follower_stands_still) { check(role::follower, fault::frozen, plain); }
BOOST_AUTO_TEST_CASE(a_follower_is_cut_off) { check(role::follower, fault::cut_off, plain); }
BOOST_AUTO_TEST_CASE(every_server_is_restarted_in_turn) { check_rolling_restart(plain); }

BOOST_AUTO_TEST_CASE(the_leader_is_killed_with_tls) { check(role::leader, fault::killed, secured); }
BOOST_AUTO_TEST_CASE(the_leader_stands_still_with_tls) { check(role::leader, fault::frozen, secured); }
BOOST_AUTO_TEST_CASE(the_leader_is_cut_off_with_tls) { check(role::leader, fault::cut_off, secured); }
BOOST_AUTO_TEST_CASE(a_follower_is_killed_with_tls) { check(role::follower, fault::killed, secured); }
BOOST_AUTO_TEST_CASE(a_follower_stands_still_with_tls) { check(role::follower, fault::frozen, secured); }
BOOST_AUTO_TEST_CASE(a_follower_is_cut_off_with_tls) { check(role::follower, fault::cut_off, secured); }
BOOST_AUTO_TEST_CASE(every_server_is_restarted_in_turn_with_tls) { check_rolling_restart(secured); }

BOOST_AUTO_TEST_CASE(the_leader_is_killed_with_slow_elections) { check(role::leader, fault::killed, slow); }
BOOST_AUTO_TEST_CASE(the_leader_stands_still_with_slow_elections) { check(role::leader, fault::frozen, slow); }
BOOST_AUTO_TEST_CASE(the_leader_is_cut_off_with_slow_elections) { check(role::leader, fault::cut_off, slow); }
BOOST_AUTO_TEST_CASE(every_server_is_restarted_in_turn_with_slow_elections) { check_rolling_restart(slow); }

BOOST_AUTO_TEST_SUITE_END()

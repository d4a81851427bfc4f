// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Programs that know all three servers, without an agent of their own in between. If one of the servers is killed,
// frozen, cut off or restarted, no slot is lost. A bad connection to the server that is asked first costs no slot,
// either.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string_view>

#include "cluster/support/cluster.hpp"
#include "cluster/support/network.hpp"
#include "cluster/support/relay.hpp"
#include "cluster/support/stage.hpp"
#include "support/certificates.hpp"
#include "support/figures.hpp"
#include "support/temporary_folder.hpp"

using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(failover)

namespace {

enum class role { leader, follower };
enum class fault {
  killed,
  frozen,
  cut_off,
  // The server stays healthy in these. A relay in front of it fails.
  resets,        ///< the open connections, and each new one
  half_open,     ///< new connections are accepted; nothing is passed on in new and in open ones
  slow,          ///< each reply comes 1 s late: from there on the client may doubt an agent
  very_slow,     ///< each reply comes 2 s late
  no_handshake,  ///< the open connections are reset; in new ones the TLS handshake gets no answer
};

std::string to_string(role whose) { return whose == role::leader ? "leader" : "follower"; }

std::string to_string(fault what) {
  switch (what) {
    case fault::killed:
      return "killed";
    case fault::frozen:
      return "frozen";
    case fault::cut_off:
      return "cut-off";
    case fault::resets:
      return "resets";
    case fault::half_open:
      return "half-open";
    case fault::slow:
      return "slow";
    case fault::very_slow:
      return "very-slow";
    case fault::no_handshake:
      return "no-handshake";
  }
  return {};
}

struct variant {
  std::string name;
  bool tls = false;
  std::string config = "{}";  ///< of the servers
  std::chrono::milliseconds ttl = 15s;
  std::chrono::milliseconds turns_bound = 20s;  ///< an election, and what the clients add
};

/// The most time for a turn of each of the two processes through a slow agent. 4.6 s were measured.
constexpr std::chrono::milliseconds longest_turns = 6s;

/// The most time for which a slot may be free after a fault without an election.
constexpr std::chrono::milliseconds bound_without_election = 10s;

const variant plain{""};
const variant secured{.name = "-tls", .tls = true};
/// Elections of 12 to 16 s. A shorter TTL than this may end while there is no leader.
const variant slow{
    .name = "-raft-multiplier-5", .config = R"({"performance":{"raft_multiplier":5}})", .ttl = 30s, .turns_bound = 45s};

/// A cluster, and two processes that hand one slot to each other all the time. Each process knows all servers.
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

  /// Both ask that server first. With a relay, they know the relay's address and not the server's own.
  void begin(int first, const relay* in_front = nullptr) {
    worker_options each{.coroutines = 1, .hold = 300ms, .outage_grace = 1h, .ttl = with_.ttl};
    for (int i = 0; i != cluster::server_count; ++i) {
      const agent& server = consul().server((first + i) % cluster::server_count);
      each.agent += (i == 0 ? "" : ",") + (with_.tls ? server.tls_url() : server.address());
      if (i == 0 && in_front) each.agent = (with_.tls ? "https://" : "") + in_front->address();
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
    play_.until_entered({"one", "two"}, since, with_.turns_bound + times * longest_turns, times);
  }
  /// How often that worker's client has switched to another agent.
  std::size_t moves(const std::string& who) {
    const std::vector<std::string> lines = play_.worker(who).lines();
    return static_cast<std::size_t>(std::count_if(lines.begin(), lines.end(), [](std::string_view each) {
      return each.find("requests go to ") != std::string_view::npos;
    }));
  }
  /// Prints the figures, with `members` in addition. If `words` is not empty, they are those of the fault of this text.
  void end(const std::string& words = {}, boost::json::object members = {}) {
    const verdict shown = play_.end();
    BOOST_TEST(shown.believers_max == 1u);
    BOOST_TEST(shown.lost == 0u);
    if (words.empty()) return;
    for (const longest_wait& each : shown.waits)
      if (each.after == words) members["longest_pause"] = std::chrono::duration<double>(each.length).count();
    members["tls"] = with_.tls;
    members["lost"] = shown.lost;
    print_figures(members);
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
  const std::string name = to_string(whose) + "-" + to_string(what);
  scene all(name, with, what == fault::cut_off);
  const int leads = all.consul().leader();
  const int victim = whose == role::leader ? leads : (leads + 1) % cluster::server_count;
  agent& server = all.consul().server(victim);
  all.begin(victim);
  const std::string words = "the server that is asked: " + name;
  const auto since = all.play().fault(words);
  if (what == fault::killed) server.kill();
  if (what == fault::frozen) server.freeze();
  if (what == fault::cut_off) all.net().cut(victim + 1);
  all.handed_on(since);
  const std::size_t moves = std::max(all.moves("one"), all.moves("two"));
  if (what == fault::killed) server.restart();
  if (what == fault::frozen) server.thaw();
  if (what == fault::cut_off) all.net().mend();
  all.consul().wait_until_healthy();
  all.handed_on(all.play().mended("it is back"));
  all.end(words, {{"fault", to_string(what)}, {"asked_first", to_string(whose)}, {"moves", moves}});
}

std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

/// Only the connection to the first agent is bad. Each worker leaves that agent once, and does not return within the
/// minute after which the first agent is tried again. If replies come 1 s late, a worker may leave the agent or not.
void check_relayed(role whose, fault what, variant with) {
  with.turns_bound = bound_without_election;
  const std::string name = to_string(whose) + "-" + to_string(what);
  scene all(name, with, false);
  const int leads = all.consul().leader();
  const int first = whose == role::leader ? leads : (leads + 1) % cluster::server_count;
  const agent& server = all.consul().server(first);
  const bool is_slow = what == fault::slow || what == fault::very_slow;
  relay way(server.host(), port_of(with.tls ? server.tls_url() : server.address()), what == fault::slow ? 1s : 2s);
  all.begin(first, &way);
  BOOST_TEST(all.moves("one") + all.moves("two") == 0u);
  BOOST_TEST(way.accepted() > 0u);
  const std::string words = "the way to the server that is asked: " + name;
  const auto since = all.play().fault(words);
  const std::size_t before = way.accepted();
  if (what == fault::resets) way.become(relay::manner::resets);
  if (what == fault::half_open || what == fault::no_handshake) way.become(relay::manner::hangs);
  if (what == fault::no_handshake) way.reset_connections();
  if (is_slow) way.become(relay::manner::delays);
  all.handed_on(since, 3);
  const std::size_t until_left = way.accepted();
  all.handed_on(since, is_slow ? 6 : 10);
  // The log has no line for a move to an agent that then answers nothing. The relay would see the connection.
  if (what != fault::slow) BOOST_TEST(way.accepted() == until_left);
  const std::size_t connections = way.accepted() - before;
  const std::size_t least = what == fault::slow ? 0 : 1;
  std::size_t moves = 0;
  for (const char* who : {"one", "two"}) {
    const std::size_t its = all.moves(who);
    BOOST_TEST(its >= least);
    BOOST_TEST(its <= 1u);
    moves = std::max(moves, its);
  }
  way.become(relay::manner::passes_on);
  all.handed_on(all.play().mended("the way is good again"));
  all.end(
      words,
      {{"fault", to_string(what)}, {"asked_first", to_string(whose)}, {"moves", moves}, {"connections", connections}});
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

BOOST_AUTO_TEST_CASE(the_way_to_the_leader_resets_connections) { check_relayed(role::leader, fault::resets, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_half_open) { check_relayed(role::leader, fault::half_open, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_very_slow) { check_relayed(role::leader, fault::very_slow, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_slow) { check_relayed(role::leader, fault::slow, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_resets_connections) { check_relayed(role::follower, fault::resets, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_half_open) { check_relayed(role::follower, fault::half_open, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_very_slow) { check_relayed(role::follower, fault::very_slow, plain); }
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_slow) { check_relayed(role::follower, fault::slow, plain); }

BOOST_AUTO_TEST_CASE(the_way_to_the_leader_resets_connections_with_tls) {
  check_relayed(role::leader, fault::resets, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_half_open_with_tls) {
  check_relayed(role::leader, fault::half_open, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_very_slow_with_tls) {
  check_relayed(role::leader, fault::very_slow, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_is_slow_with_tls) { check_relayed(role::leader, fault::slow, secured); }
BOOST_AUTO_TEST_CASE(the_way_to_the_leader_answers_no_handshake) {
  check_relayed(role::leader, fault::no_handshake, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_resets_connections_with_tls) {
  check_relayed(role::follower, fault::resets, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_half_open_with_tls) {
  check_relayed(role::follower, fault::half_open, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_very_slow_with_tls) {
  check_relayed(role::follower, fault::very_slow, secured);
}
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_is_slow_with_tls) { check_relayed(role::follower, fault::slow, secured); }
BOOST_AUTO_TEST_CASE(the_way_to_a_follower_answers_no_handshake) {
  check_relayed(role::follower, fault::no_handshake, secured);
}

BOOST_AUTO_TEST_CASE(the_leader_is_killed_with_slow_elections) { check(role::leader, fault::killed, slow); }
BOOST_AUTO_TEST_CASE(the_leader_stands_still_with_slow_elections) { check(role::leader, fault::frozen, slow); }
BOOST_AUTO_TEST_CASE(the_leader_is_cut_off_with_slow_elections) { check(role::leader, fault::cut_off, slow); }
BOOST_AUTO_TEST_CASE(every_server_is_restarted_in_turn_with_slow_elections) { check_rolling_restart(slow); }

BOOST_AUTO_TEST_SUITE_END()

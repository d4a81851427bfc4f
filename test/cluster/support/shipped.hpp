// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"
#include "support/figures.hpp"
#include "support/participant.hpp"

// Tests with Consul's own defaults, which all other cluster tests change, and with TTLs as users have them. Servers
// remove failed servers, agents leave the cluster when they are stopped, and an election takes a quarter of a minute.
// An event that ends the sessions of an agent's node must not end our sessions, and must not make two holders believe.
namespace holdfast::test {
using namespace std::chrono_literals;

/// A cluster, and two semaphores with one slot each. The sessions of the first one belong to a node of their own, which
/// is the default. The sessions of the other one belong to their agent's node. Each semaphore has a holder, and a
/// waiter at another agent.
class scene {
public:
  scene(std::string name, int clients, std::chrono::milliseconds ttl = 15s, const std::string& extra_config = "{}")
      : consul(clients, nullptr, true, extra_config),
        name_(std::move(name)),
        ttl_(ttl),
        // A holder that has died keeps its slot for two TTLs, which each new leader counts anew. 16 s were measured for
        // an election.
        patience(2 * ttl + 20s + 10s),
        own_("as-shipped-" + name_, 1, 1, patience),
        agents_("as-shipped-" + name_ + "-agents-node", 1, 1, patience) {}

  /// Returns when the holders have their slots and the others wait. `token` is for the holders.
  void begin(const agent& holders, const agent& waiters, const std::string& token = {}) {
    on_both([&](stage& each) {
      worker_options its = at(holders, each);
      its.token = token;
      each.start("holder", its);
      each.until_entered({"holder"}, {}, patience);
      each.start("waiter", at(waiters, each));
      each.until("the other one waits", patience, [&] { return contenders(waiters, each.prefix()).size() == 2; });
    });
  }
  stage::time_point fault(const std::string& words, const std::vector<std::string>& away = {"holder", "waiter"}) {
    stage::time_point at{};
    on_both([&](stage& each) { at = each.fault(words, away); });
    return at;
  }
  stage::time_point mended(const std::string& words, const std::vector<std::string>& back = {}) {
    stage::time_point at{};
    on_both([&](stage& each) { at = each.mended(words, back); });
    return at;
  }
  void until(const std::string& fact, const std::function<bool()>& holds) { own_.until(fact, patience, holds); }
  void until_waiters_entered(stage::time_point since) {
    on_both([&](stage& each) { each.until_entered({"waiter"}, since, patience); });
  }
  /// Waits until the waiters have entered, and until the holders, which cannot be notified, believe no more.
  void until_handed_over(stage::time_point since) {
    until_waiters_entered(since);
    until_the_holders_leases_are_over();
  }
  void until_holders_were_told() {
    on_both([&](stage& each) {
      each.until_written("the holder has been told", patience, [](const journal_entry& line) {
        return line.who == "holder" && line.what == journal_event::lost;
      });
    });
  }
  void until_somebody_entered(stage::time_point since) {
    on_both([&](stage& each) {
      each.until_written("somebody has entered", patience, [since](const journal_entry& line) {
        return line.what == journal_event::enter && line.at >= since;
      });
    });
  }
  /// Waits for the holder of the semaphore whose sessions have a node of their own.
  void until_the_holder_has_renewed(stage::time_point since) {
    own_.until_written("the holder's lease was extended", patience, [since](const journal_entry& line) {
      return line.who == "holder" && line.what == journal_event::lease && line.at >= since;
    });
  }
  /// Waits until the last leases that the holders have written are over.
  void until_the_holders_leases_are_over() {
    on_both([&](stage& each) {
      stage::time_point last{};
      for (const journal_entry& line : each.entries())
        if (line.who == "holder") last = std::max(last, line.lease);
      each.until("the holder's lease is over", patience, [last] { return journal_now() > last; });
    });
  }
  void freeze_holders() {
    on_both([](stage& each) { each.worker("holder").freeze(); });
  }
  void thaw_holders() {
    on_both([](stage& each) { each.worker("holder").thaw(); });
  }

  /// How often the servers have removed the agent's node, with all of its sessions, from the catalog. The figure comes
  /// from the servers' logs, because an agent that leaves may register its node again at once.
  std::size_t deregistered(const agent& its) {
    std::size_t times = 0;
    for (int i = 0; i != cluster::server_count; ++i) {
      const std::string log = consul.server(i).log_tail(100'000),
                        words = "deregistering member: member=" + its.node_name();
      for (std::size_t at = log.find(words); at != std::string::npos; at = log.find(words, at + 1)) ++times;
    }
    return times;
  }
  void until_deregistered(const agent& its, std::size_t times = 1) {
    until("its node is deregistered", [&] { return deregistered(its) >= times; });
  }
  /// Waits until the leader knows that the agent has joined: only the leader makes this check. If the agent left before
  /// that, no server would remove its node.
  void until_registered(const agent& its) {
    until("its node is registered", [&] {
      const auto found = consul.server(0).get("/v1/health/node/" + its.node_name());
      return found.status == 200 && found.body.find("\"serfHealth\"") != std::string::npos;
    });
  }
  /// Begins with the holders at one follower and the waiters at the other. Then it kills the leader, and restarts it
  /// when there is another leader.
  void lose_the_leader() {
    const int leads = consul.leader();
    agent& leader = consul.server(leads);
    const agent& follower = consul.server((leads + 1) % cluster::server_count);
    begin(follower, consul.server((leads + 2) % cluster::server_count));
    fault("the leader is killed");
    leader.kill();
    const std::string old = leader.host() + ":" + std::to_string(leader.rpc_port());
    until("there is another leader", [&] {
      const auto said = follower.get("/v1/status/leader");
      return said.status == 200 && said.body.size() > 4 && said.body.find(old) == std::string::npos;
    });
    leader.restart();
    consul.wait_until_healthy();
    mended("it is back", {"holder", "waiter"});
  }

  /// The holders go on, and are notified of their losses.
  void check_end_when_told() {
    mended("it goes on", {"holder"});
    until_holders_were_told();
    check_end(false);
  }
  /// Checks that two never believed at a time. If `kept`, the holder whose session has a node of its own must not have
  /// lost its slot.
  void check_end(bool kept) {
    const outcome own = outcome_of(own_), agents = outcome_of(agents_);
    if (kept) BOOST_TEST(own.losses == 0u);
    print_figures({{"scene", name_},
                   {"ttl_s", ttl_.count() / 1000},
                   {"own_node_losses", own.losses},
                   {"own_node_overlap", own.overlap},
                   {"agents_node_losses", agents.losses},
                   {"agents_node_overlap", agents.overlap}});
  }

  cluster consul;

private:
  struct outcome {
    std::size_t losses = 0;  ///< of the first holder
    double overlap = 0;      ///< in seconds
  };

  worker_options at(const agent& its, const stage& on) const {
    return {.agent = its.address(),
            .coroutines = 1,
            .hold = 1h,
            .outage_grace = 24h,
            .ttl = ttl_,
            .on_agents_node = &on == &agents_};
  }
  void on_both(const std::function<void(stage&)>& deed) {
    deed(own_);
    deed(agents_);
  }
  outcome outcome_of(stage& each) {
    const verdict shown = each.end();
    BOOST_TEST(shown.believers_max == 1u);
    BOOST_TEST(shown.overlap == protocol::duration::zero());
    outcome result;
    result.overlap = std::chrono::duration<double>(shown.overlap).count();
    for (const journal_entry& line : each.entries())
      result.losses += line.who == "holder" && line.what == journal_event::lost;
    return result;
  }

  const std::string name_;
  const std::chrono::milliseconds ttl_;

public:
  const std::chrono::milliseconds patience;

private:
  stage own_, agents_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Commands of an operator on a semaphore in use, while Consul has no leader, and while an agent is frozen.

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>

#include "cluster/support/cluster.hpp"
#include "cluster/support/crew.hpp"
#include "cluster/support/stage.hpp"
#include "cluster/support/timing.hpp"
#include "support/participant.hpp"

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// An operator who gives commands, at any agent.
class chief {
public:
  explicit chief(std::string prefix) : prefix_(std::move(prefix)) {}

  /// Runs one command and returns its error code. `order` is called with the handle and a handler. The test fails if
  /// the command does not complete in time.
  template <class Order>
  error_code give(const agent& at, std::chrono::milliseconds timeout, Order order) const {
    asio::io_context io;
    consul::config config;
    config.address = at.address();
    consul::client client(io, config);
    administration_options options;
    options.prefix = prefix_;
    options.timeout = timeout;
    semaphore_administration admin(client, options);
    bool done = false;
    error_code result;
    order(admin, [&](error_code ec, const auto&...) {
      result = ec;
      done = true;
      client.close();
    });
    io.run_for(timeout + grant_bound + slack);
    BOOST_TEST(done, "the order has no end");
    return result;
  }

  /// Repeats the command until it succeeds. A command of unknown outcome is given again, too.
  template <class Order>
  void insist(stage& play, const agent& at, const std::string& what, Order order) {
    play.until(what, grant_bound, [&] {
      const error_code ec = give(at, 3s, order);
      ++given_;
      BOOST_TEST((!ec || ec == condition::unavailable || ec == condition::outcome_unknown),
                 what << ": " << ec.message());
      return !ec;
    });
  }
  int given() const { return given_; }

  /// The session with which that worker holds its slot.
  std::string session_of(const agent& at, const std::string& who) const {
    std::string found;
    const error_code ec = give(at, 5s, [&](semaphore_administration& admin, auto done) {
      admin.inspect([&found, &who, done](error_code failure, const semaphore_status& now) {
        for (const contender_status& each : now.holders)
          if (each.description == who) found = each.session;
        done(failure);
      });
    });
    BOOST_REQUIRE_MESSAGE(!ec && !found.empty(), who << " holds nothing; " << ec.message());
    return found;
  }

private:
  const std::string prefix_;
  int given_ = 0;
};

auto resize_to(std::uint32_t limit) {
  return [limit](semaphore_administration& admin, auto done) { admin.resize(limit, done); };
}
auto revoke_of(std::string session) {
  return [session](semaphore_administration& admin, auto done) { admin.revoke(session, done); };
}
auto evict_of(std::string session) {
  return [session](semaphore_administration& admin, auto done) { admin.evict(session, done); };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(administrations)

BOOST_AUTO_TEST_CASE(orders_while_consul_has_no_leader) {
  cluster consul(1);
  stage play("administrations", 4);
  chief boss(play.prefix());
  start_one_at_each_agent(play, consul, 1, nullptr, {.use_recorded_limit = true});
  play.until_entered(play.names(), {}, grant_bound);
  const auto others = [&](int its) {
    std::vector<std::string> all = play.names();
    std::erase(all, at_server(its));
    return all;
  };

  int its = consul.leader();
  const agent* at = &consul.server((its + 1) % cluster::server_count);
  play.fault("leader killed, and a lower limit ordered", {at_server(its)});
  consul.server(its).kill();
  boss.insist(play, *at, "it is resized", resize_to(2));
  play.until("no more than that hold", grant_bound, [&] { return holders(*at, play.prefix()).size() <= 2; });
  play.limit_is(2);
  play.until_entered(others(its), journal_now(), grant_bound);
  consul.server(its).restart();
  consul.wait_until_healthy();
  play.until_entered(play.names(), play.mended("leader restarted", {at_server(its)}), grant_bound);

  its = consul.leader();
  at = &consul.server((its + 1) % cluster::server_count);
  play.fault("leader killed, and close ordered", play.names());
  consul.server(its).kill();
  boss.insist(play, *at, "it is closed", [](semaphore_administration& admin, auto done) { admin.close(done); });
  boss.insist(play, *at, "it is drained",
              [](semaphore_administration& admin, auto done) { admin.wait_until_drained(grant_bound, done); });
  const auto drained = journal_now();
  consul.server(its).restart();
  consul.wait_until_healthy();
  const std::vector<journal_entry> until_now = play.entries();
  BOOST_TEST(std::none_of(until_now.begin(), until_now.end(), [&](const journal_entry& each) {
    return each.what == journal_event::enter && each.at >= drained;
  }));
  play.limit_is(4);
  boss.insist(play, *at, "it is resized", resize_to(4));
  boss.insist(play, *at, "it is opened", [](semaphore_administration& admin, auto done) { admin.open(done); });
  play.until_entered(play.names(), play.mended("opened", play.names()), grant_bound);
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max == 4u);
  std::cout << "administrations: 5 orders, given " << boss.given() << " times" << std::endl;
}

BOOST_AUTO_TEST_CASE(orders_while_a_holders_agent_is_frozen) {
  cluster consul(1);
  stage play("administrations-frozen-agent", 2);
  chief boss(play.prefix());
  agent& frozen = consul.client(0);
  const agent& at = consul.server(0);
  worker_options worker{.coroutines = 1, .hold = 1h, .outage_grace = 1h, .use_recorded_limit = true};
  const std::vector<std::string> queue = {"behind", "beside", "next-1", "next-2", "next-3"};
  for (std::size_t i = 0; i != queue.size(); ++i) {
    worker.agent = i == 0 ? frozen.address() : at.address();
    play.start(queue[i], worker);
    play.until(queue[i] + " stands in the queue", grant_bound,
               [&] { return contenders(at, play.prefix()).size() == i + 1; });
  }
  const auto is_told = [&](const std::string& who, stage::time_point since) {
    play.until_written(who + " has been told", grant_bound, [&](const journal_entry& each) {
      return each.who == who && each.what == journal_event::lost && each.at >= since;
    });
  };

  // The holder behind the frozen agent cannot be notified of the revocation. It loses its slot with its lease.
  const std::string unreachable = boss.session_of(at, "behind");
  auto since = play.fault("the client agent is frozen", {"behind"});
  frozen.freeze();
  boss.insist(play, at, "a slot behind it is wanted", revoke_of(unreachable));
  const error_code there = boss.give(frozen, 2s, resize_to(3));
  BOOST_TEST((there == condition::unavailable), there.message());
  play.until_entered({"next-1"}, since, grant_bound);
  frozen.thaw();
  consul.wait_until_healthy();
  play.mended("the client agent goes on", {"behind"});
  is_told("behind", since);

  since = journal_now();
  boss.insist(play, at, "another slot is wanted", revoke_of(boss.session_of(at, "beside")));
  play.until_entered({"next-2"}, since, grant_bound);

  // A holder that is evicted believes in its slot until it is notified. The next holder has the slot already.
  since = journal_now();
  play.limit_is(3);
  boss.insist(play, at, "one is evicted", evict_of(boss.session_of(at, "next-1")));
  is_told("next-1", since);
  play.until_entered({"next-3"}, since, grant_bound);
  play.limit_is(2);

  since = journal_now();
  play.limit_is(3);
  boss.insist(play, at, "there is one more", resize_to(3));
  play.until("a waiter runs", grant_bound, [&] {
    const std::vector<journal_entry> all = play.entries();
    return std::any_of(all.begin(), all.end(), [&](const journal_entry& each) {
      return each.what == journal_event::enter && each.at >= since;
    });
  });
  const verdict shown = play.end();
  BOOST_TEST(shown.believers_max <= 3u);
  BOOST_TEST(shown.lost == 2u);
}

BOOST_AUTO_TEST_SUITE_END()

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/crew.hpp"

#include "cluster/support/timing.hpp"

namespace holdfast::test {

using namespace std::chrono_literals;

std::string at_server(int index) { return "server-" + std::to_string(index + 1); }
std::string at_client(int index) { return "client-" + std::to_string(index + 1); }

void start_one_at_each_agent(stage& play, cluster& consul, int clients, const network* net,
                             const worker_options& like) {
  const auto start = [&](const std::string& who, const agent& its, int host) {
    worker_options options = like;
    options.agent = its.address();
    if (net) options.launcher = net->inside(host);
    play.start(who, options);
  };
  for (int i = 0; i != cluster::server_count; ++i) start(at_server(i), consul.server(i), i + 1);
  for (int i = 0; i != clients; ++i) start(at_client(i), consul.client(i), cluster::server_count + i + 1);
}

void check_that_a_frozen_agent_holds_nothing(
    stage& play, cluster& consul, const worker_options& like,
    const std::function<void(const std::string& who, stage::time_point since)>& takes_all) {
  agent& frozen = consul.client(0);
  worker_options options = like;
  options.agent = frozen.address();
  options.hold = 1h;
  options.outage_grace = 1h;
  play.start("holder", options);
  takes_all("holder", {});
  options.agent = consul.server(0).address();
  options.outage_grace = 0h;
  play.start("waiter", options);
  play.until_written("it waits", grant_bound, [](const journal_entry& each) {
    return each.who == "waiter" && each.what == journal_event::asked;
  });
  const auto since = play.fault("the client agent is frozen", {"holder"});
  frozen.freeze();
  takes_all("waiter", since);
  frozen.thaw();
  consul.wait_until_healthy();
  play.mended("the client agent goes on", {"holder"});
  play.until_written("the holder has been told", grant_bound, [](const journal_entry& each) {
    return each.who == "holder" && each.what == journal_event::lost;
  });
}

void check_that_work_goes_on(stage& play, const cluster& consul, const mishap& what) {
  std::vector<std::string> others = play.names();
  std::erase(others, what.who);
  const auto begun = play.fault(what.begins, {what.who});
  what.strike();
  play.until_entered(others, begun, grant_bound);
  what.mend();
  consul.wait_until_healthy();
  const auto mended = play.mended(what.ends, {what.who});
  play.until_entered(play.names(), mended, grant_bound);
}

void check_that_work_goes_on_without_the_leader(stage& play, cluster& consul) {
  const int its = consul.leader();
  agent& leader = consul.server(its);
  check_that_work_goes_on(
      play, consul,
      {at_server(its), "leader killed", "leader restarted", [&] { leader.kill(); }, [&] { leader.restart(); }});
}

}  // namespace holdfast::test

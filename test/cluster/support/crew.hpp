#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"

namespace holdfast::test {

std::string at_server(int index);  ///< the worker's name
std::string at_client(int index);

/// A worker like that at each agent of the cluster, each on its agent's host.
void start_one_at_each_agent(stage& play, cluster& consul, int clients, const network* net = nullptr,
                             const worker_options& like = {});

/// A worker like that takes all slots behind a client agent, which is frozen; another one at a server waits, and has to
/// have them while that lasts. The first hears of it when the agent goes on. `takes_all(who, since)` waits for that.
void check_that_a_frozen_agent_holds_nothing(
    stage& play, cluster& consul, const worker_options& like,
    const std::function<void(const std::string& who, stage::time_point since)>& takes_all);

/// What goes wrong at one agent, and how it ends.
struct mishap {
  std::string who;  ///< the worker there
  std::string begins, ends;
  std::function<void()> strike, mend;
};

/// `kill -9` of Consul's leader, and its restart.
void check_that_work_goes_on_without_the_leader(stage& play, cluster& consul);

/// The others are granted slots meanwhile, and everybody afterwards.
void check_that_work_goes_on(stage& play, const cluster& consul, const mishap& what);

}  // namespace holdfast::test

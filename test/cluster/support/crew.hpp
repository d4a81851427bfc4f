// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"

namespace holdfast::test {

std::string at_server(int index);  ///< the worker's name
std::string at_client(int index);

/// Starts a worker with the options `like` at each agent of the cluster, on the agent's host.
void start_one_at_each_agent(stage& play, cluster& consul, int clients, const network* net = nullptr,
                             const worker_options& like = {});

/// A worker with the options `like` takes all slots behind a client agent. Then the agent is frozen. Another worker, at
/// a server, waits, and must get all slots while the agent is frozen. The first one is notified when the agent goes on.
/// `takes_all(who, since)` waits until that worker has taken all slots.
void check_that_a_frozen_agent_holds_nothing(
    stage& play, cluster& consul, const worker_options& like,
    const std::function<void(const std::string& who, stage::time_point since)>& takes_all);

/// A fault at one agent, and its end.
struct mishap {
  std::string who;  ///< the worker there
  std::string begins, ends;
  std::function<void()> strike, mend;
};

/// Kills Consul's leader by SIGKILL, and restarts it.
void check_that_work_goes_on_without_the_leader(stage& play, cluster& consul);

/// Checks that the other workers are granted slots during the fault, and all workers after it.
void check_that_work_goes_on(stage& play, const cluster& consul, const mishap& what);

}  // namespace holdfast::test

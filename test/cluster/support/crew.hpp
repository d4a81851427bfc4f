#pragma once

#include <string>
#include <vector>

#include "cluster/support/cluster.hpp"
#include "cluster/support/stage.hpp"

namespace holdfast::test {

std::string at_server(int index);  ///< the worker's name
std::string at_client(int index);

/// A worker with two coroutines at each agent of the cluster, each on its agent's host.
void start_one_at_each_agent(stage& play, cluster& consul, int clients, const network* net = nullptr);

std::vector<std::string> all_but(const stage& play, const std::string& who);

}  // namespace holdfast::test

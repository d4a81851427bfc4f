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

/// What goes wrong at one agent, and how it ends.
struct mishap {
  std::string who;  ///< the worker there
  std::string begins, ends;
  std::function<void()> strike, mend;
};

/// The others are granted slots meanwhile, and everybody afterwards.
void check_that_work_goes_on(stage& play, const cluster& consul, const mishap& what);

}  // namespace holdfast::test

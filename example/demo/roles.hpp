#pragma once

#include "common/agent.hpp"
#include "options.hpp"

namespace demo {

/// Starts the workers, kills one midway, watches, and says at the end whether all was as it must be: the exit status.
int run_supervisor(const options& o, const example::agent& agent);

/// One process with many coroutines that share the semaphore. Tells the supervisor, by lines on stdout, what it does.
int run_worker(const options& o, const example::agent& agent);

}  // namespace demo

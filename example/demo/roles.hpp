// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "common/agent.hpp"
#include "options.hpp"

namespace demo {

/// Starts the workers, kills one of them midway, and watches. Returns the exit status: 0 if all checks hold.
int run_supervisor(const options& o, const example::agent& agent);

/// Runs one process with many coroutines, which all use the semaphore. Reports to the supervisor by lines on stdout.
int run_worker(const options& o, const example::agent& agent);

}  // namespace demo

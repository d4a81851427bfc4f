// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <string>

namespace demo {

struct options {
  std::chrono::seconds run_time{15};
  int workers = 3;
  int coroutines = 50;  ///< in each worker
  int limit = 4;
  std::chrono::milliseconds ttl{2'000};  ///< short, so that a dead process's slots return soon
  bool plain = false;                    ///< print event lines even if stdout is a terminal
  std::string prefix;
  char worker = 0;  ///< the name of the worker that this process is; 0: the supervisor
};

}  // namespace demo

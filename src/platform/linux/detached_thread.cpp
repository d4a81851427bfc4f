// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/detached_thread.hpp"

#include <csignal>
#include <thread>
#include <utility>

namespace holdfast::platform {
namespace {

/// Blocks all signals in this thread. A thread that it starts inherits that.
class signals_blocked {
public:
  signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

private:
  sigset_t before_{};
};

}  // namespace

void start_detached(std::function<void()> run) {
  const signals_blocked inherited;
  std::thread(std::move(run)).detach();
}

}  // namespace holdfast::platform

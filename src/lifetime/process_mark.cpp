// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/process_mark.hpp"

#include "platform/fork.hpp"

namespace holdfast::lifetime {

std::atomic<unsigned> process_mark::forks_so_far{0};

process_mark::process_mark() : forks_(0) {
  static const bool registered = [] {
    platform::call_in_forked_child([] { forks_so_far.fetch_add(1, std::memory_order_relaxed); });
    return true;
  }();
  static_cast<void>(registered);
  forks_ = forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace holdfast::lifetime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/process_mark.hpp"

#include <pthread.h>

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

namespace holdfast::lifetime {

std::atomic<unsigned> process_mark::forks_so_far{0};

process_mark::process_mark() : forks_(0) {
  static const bool registered = [] {
    const int failed = ::pthread_atfork(nullptr, nullptr, [] { forks_so_far.fetch_add(1, std::memory_order_relaxed); });
    if (failed != 0) throw boost::system::system_error(failed, boost::system::system_category(), "pthread_atfork");
    return true;
  }();
  static_cast<void>(registered);
  forks_ = forks_so_far.load(std::memory_order_relaxed);
}

}  // namespace holdfast::lifetime

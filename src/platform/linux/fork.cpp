// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/fork.hpp"

#include <pthread.h>

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>

namespace holdfast::platform {

void call_in_forked_child(void (*function)()) {
  const int failed = ::pthread_atfork(nullptr, nullptr, function);
  if (failed != 0) throw boost::system::system_error(failed, boost::system::system_category(), "pthread_atfork");
}

}  // namespace holdfast::platform

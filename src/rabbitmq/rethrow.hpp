// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <exception>

namespace holdfast::rabbitmq::detail {

/// The completion handler of spawned coroutines, whose exceptions are not handled.
inline void rethrow(const std::exception_ptr& failure) {
  if (failure) std::rethrow_exception(failure);
}

}  // namespace holdfast::rabbitmq::detail

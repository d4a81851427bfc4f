// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <exception>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <string>
#include <utility>

#include "protocol/core/events.hpp"

namespace holdfast::runtime {

using detail::outcome;

[[gnu::cold]] HOLDFAST_INTERNAL outcome failed(protocol::failure&& why, diagnostics* diag);

/// The outcome of an operation of the core. On failure, fills in `diag` if it is not null.
inline outcome outcome_of(protocol::failure&& why, diagnostics* diag = nullptr) {
  if (why.code) return failed(std::move(why), diag);
  return {};
}
/// The outcome of a coroutine of the library that has thrown a `system_error` or `bad_alloc`. Rethrows any other
/// exception.
HOLDFAST_INTERNAL outcome outcome_of(const std::exception_ptr& thrown);

/// The text of the exception without the text of its code.
std::string reason_of(const system_error& failed);

}  // namespace holdfast::runtime

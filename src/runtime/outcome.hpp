#pragma once

#include <exception>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <string>
#include <utility>

#include "protocol/events.hpp"

namespace holdfast::runtime {

using detail::outcome;

outcome failed(protocol::failure&& why, diagnostics* diag);

/// From the end of an operation in the core. Fills in `diag`, if there is one, on failure.
inline outcome outcome_of(protocol::failure&& why, diagnostics* diag = nullptr) {
  if (why.code) return failed(std::move(why), diag);
  return {};
}
/// From what a coroutine of ours has thrown: a `system_error`. Any other exception is thrown on.
outcome outcome_of(const std::exception_ptr& thrown);

/// The text of the exception without the text of its code.
std::string reason_of(const system_error& failed);

}  // namespace holdfast::runtime

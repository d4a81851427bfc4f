// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/slot_source.hpp>

#include "protocol/core/turn_deadline.hpp"
#include "protocol/core/user_events.hpp"

namespace holdfast::runtime {

/// Returns the options that the core uses. Only this function copies options one by one on the way to the core. If
/// `acquire_request`, `acquire_options` or `acquire_terms` gets another member, this function does not compile. Then
/// pass the member on here, or use it in `shell::begin`.
inline protocol::acquire_terms terms_of(const detail::acquire_request& request, protocol::time_point now) {
  const auto& [options, tries_once, within] = request;
  // `shell::begin` uses the other options. Only the shell has a tracer, fills in diagnostics, and estimates waits.
  const auto& [wanted, diag, of_turn, trace_parent] = options;
  protocol::acquire_terms terms;
  auto& [count, once, deadline] = terms;
  count = wanted;
  once = tries_once;
  deadline = protocol::time_after(now, within);
  return terms;
}

}  // namespace holdfast::runtime

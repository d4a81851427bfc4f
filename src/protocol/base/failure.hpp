// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>

namespace holdfast::protocol {

/// The reason of a failure: a code for programs, and a text for people.
struct failure {
  error_code code{};
  diagnostics details{};
  bool operator==(const failure&) const = default;
};

/// True for an error that repetition usually cannot mend. Callers that wait should receive it at once. An exception is
/// error::missing_node, after which a core tries again to create its session.
inline bool is_final(const error_code& code) { return !(code == condition::unavailable); }

}  // namespace holdfast::protocol

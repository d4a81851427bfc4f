// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/semaphore_status.hpp>

#include "protocol/administration/administration.hpp"

namespace holdfast::runtime {

/// Converts an inspection to the status for users. The ages of the entries are computed from `now_since_1970`.
semaphore_status to_status(const protocol::inspection& seen, std::chrono::seconds now_since_1970);

}  // namespace holdfast::runtime

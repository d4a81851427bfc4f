// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <string>

namespace holdfast::platform {

/// A text that no other process of this host has now: the id of this process.
/// Portable version: eight hexadecimal digits that are drawn once per process. They are not the process id of the
/// system, and a child of fork() has those of its parent.
HOLDFAST_INTERNAL std::string process_id();

}  // namespace holdfast::platform

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <vector>

namespace holdfast::cli {

/// The processes whose parent, grandparent and so on is `root`, as /proc shows them. `root` is not among them, nor is
/// `except` with its own descendants.
std::vector<pid_t> descendants_of(pid_t root, pid_t except = -1);

}  // namespace holdfast::cli

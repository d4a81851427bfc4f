// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace example {

/// Starts this program again with these arguments and an empty stdin. `output` becomes its stdout; -1: inherit ours.
pid_t start_again(std::vector<std::string> arguments, int output = -1);

}  // namespace example

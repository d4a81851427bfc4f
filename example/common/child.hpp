#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace example {

/// Starts this program once more, with these arguments and nothing to read. `output` is its stdout; -1: ours.
pid_t start_again(std::vector<std::string> arguments, int output = -1);

}  // namespace example

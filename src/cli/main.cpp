// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/command_line.hpp"

int main(int argc, char** argv) try {
  return holdfast::cli::main(std::vector<std::string>(argv + 1, argv + argc));
} catch (const std::exception& failed) {
  std::fprintf(stderr, "holdfast: %s\n", failed.what());
  return 1;
}

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <vector>

namespace holdfast::cli {

/// Carries out the command line without the program's name. Returns the exit status.
int main(std::vector<std::string> words);

}  // namespace holdfast::cli

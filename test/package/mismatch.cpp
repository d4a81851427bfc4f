// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Uses one header of the library, and nothing that it defines.
#include <holdfast/error.hpp>

int main() { return static_cast<int>(holdfast::error::closed) == 0; }

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>

namespace holdfast::cli {

bool is_terminal_stdin();
bool is_terminal_stdout();

struct window_size {
  std::size_t rows = 24, columns = 80;
};

/// The size of the terminal of stdout. If stdout is no terminal, or a tiny one, the default.
window_size size_of_window();

}  // namespace holdfast::cli

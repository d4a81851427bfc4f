// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace holdfast::cli {

bool is_terminal_stdin() { return isatty(STDIN_FILENO) != 0; }

bool is_terminal_stdout() { return isatty(STDOUT_FILENO) != 0; }

window_size size_of_window() {
  winsize its{};
  window_size size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &its) == 0 && its.ws_row > 2 && its.ws_col > 10) size = {its.ws_row, its.ws_col};
  return size;
}

}  // namespace holdfast::cli

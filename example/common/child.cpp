// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "child.hpp"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <system_error>

extern char** environ;

namespace example {

pid_t start_again(std::vector<std::string> arguments, int output) {
  std::vector<char*> words = {program_invocation_short_name};
  for (std::string& each : arguments) words.push_back(each.data());
  words.push_back(nullptr);

  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (output >= 0) ::posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, "/proc/self/exe", &files, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "cannot start this program once more");
  return pid;
}

}  // namespace example

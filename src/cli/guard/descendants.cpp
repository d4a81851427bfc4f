// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/guard/descendants.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::cli {

namespace {

// The parent is the second field behind the name, which is in brackets and may contain anything.
pid_t parent_of(const char* process) {
  const std::string path = std::string("/proc/") + process + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[512];
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  const std::string_view line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t name_end = line.rfind(") ");
  if (name_end == line.npos || name_end + 4 >= line.size()) return -1;
  pid_t parent = -1;
  std::from_chars(line.data() + name_end + 4, line.data() + line.size(), parent);
  return parent;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root, pid_t except) {
  std::vector<std::pair<pid_t, pid_t>> all;  // process and parent
  DIR* const folder = opendir("/proc");
  if (folder == nullptr) return {};
  while (const dirent* entry = readdir(folder)) {
    pid_t process = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    const auto [rest, bad] = std::from_chars(entry->d_name, end, process);
    if (bad == std::errc() && rest == end) all.emplace_back(process, parent_of(entry->d_name));
  }
  closedir(folder);

  std::vector<pid_t> found, parents{root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const auto& [process, its_parent] : all)
      if (its_parent == parent && process != except) {
        found.push_back(process);
        parents.push_back(process);
      }
  }
  return found;
}

}  // namespace holdfast::cli

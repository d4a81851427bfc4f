// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <utility>

namespace holdfast::net {

/// Identifies the state of a file without reading it. If two stamps of a file differ, it was written, replaced, made or
/// removed in between. The stamp of a file that cannot be examined consists of zeros.
struct file_stamp {
  file_stamp() = default;
  explicit file_stamp(const std::filesystem::path& file) {
    struct stat found {};
    if (::stat(file.c_str(), &found) != 0) return;
    inode = found.st_ino;
    size = found.st_size;
    changed = {found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
  }
  ino_t inode = 0;
  off_t size = 0;
  std::pair<std::time_t, long> changed{};
  bool operator==(const file_stamp&) const = default;
};

}  // namespace holdfast::net

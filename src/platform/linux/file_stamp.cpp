// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/file_stamp.hpp"

#include <sys/stat.h>

namespace holdfast::platform {

file_stamp::file_stamp(const std::filesystem::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return;
  inode = found.st_ino;
  size = static_cast<std::uint64_t>(found.st_size);
  changed_seconds = found.st_mtim.tv_sec;
  changed_nanoseconds = found.st_mtim.tv_nsec;
}

}  // namespace holdfast::platform

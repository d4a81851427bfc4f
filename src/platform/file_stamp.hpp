// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <filesystem>

namespace holdfast::platform {

/// Identifies the state of a file without reading it. If two stamps of a file differ, it was written, replaced, made or
/// removed in between. The stamp of a file that cannot be examined consists of zeros.
/// Portable version: `inode` is always 0. So a file that is replaced by another of the same size and time has the same
/// stamp.
struct file_stamp {
  file_stamp() = default;
  explicit file_stamp(const std::filesystem::path& file);
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t changed_seconds = 0;
  std::int64_t changed_nanoseconds = 0;
  bool operator==(const file_stamp&) const = default;
};

}  // namespace holdfast::platform

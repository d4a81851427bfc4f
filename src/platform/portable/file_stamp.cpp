// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/file_stamp.hpp"

#include <chrono>
#include <system_error>

namespace holdfast::platform {

file_stamp::file_stamp(const std::filesystem::path& file) {
  std::error_code no_size, no_time;
  const std::uintmax_t found = std::filesystem::file_size(file, no_size);
  const auto changed = std::filesystem::last_write_time(file, no_time).time_since_epoch();
  if (no_size || no_time) return;
  size = found;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(changed);
  changed_seconds = seconds.count();
  changed_nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(changed - seconds).count();
}

}  // namespace holdfast::platform

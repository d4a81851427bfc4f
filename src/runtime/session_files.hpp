// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/run_directory.hpp"

namespace holdfast::runtime {

/// The files in the run directory that stand for the sessions of one driver. A file loses its name before it is closed,
/// and if it keeps its name, it stays open for as long as the process runs.
///
/// The functions are thread-safe.
class session_files {
public:
  /// Without a directory, no files are made.
  session_files(run_directory* directory, std::string lock_key)
      : directory_(directory), lock_key_(std::move(lock_key)) {}
  session_files(const session_files&) = delete;
  session_files& operator=(const session_files&) = delete;
  ~session_files();

  /// Makes the file of a session that this process has made. Returns an errno, or 0. It is also 0 if no file is needed.
  int made(const std::string& session);
  /// The session has ended, as far as this process knows. Its file is removed if it is one of ours, or if its maker is
  /// gone.
  void ended(const std::string& session);
  /// Nobody uses a slot of the driver any more. From now on, no file is made.
  void remove_all();
  /// The descriptor of the file of a session of the driver. -1 if there is none.
  int descriptor(const std::string& session);

  run_directory* directory() const noexcept { return directory_; }

private:
  using file_map = std::map<std::string, run_directory::made_file>;
  file_map::iterator remove(file_map::iterator at);

  run_directory* const directory_;
  const std::string lock_key_;
  std::mutex mutex_;
  file_map files_;
  bool is_over_ = false;
};

}  // namespace holdfast::runtime

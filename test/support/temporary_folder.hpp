// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace holdfast::test {

/// A folder for the files of a test. The destructor removes it.
class temporary_folder {
public:
  temporary_folder() { std::filesystem::create_directory(path_); }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  /// Writes a file, and returns its path. An older file is replaced in one step, so that readers never see a part.
  std::string write(const std::string& name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    const std::filesystem::path made = file.string() + ".new";
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(made, std::ios::binary) << text;
    std::filesystem::rename(made, file);
    return file.string();
  }
  std::string path() const { return path_.string(); }

private:
  static inline std::atomic<int> count_{0};
  const std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                      ("holdfast-" + std::to_string(::getpid()) + '-' + std::to_string(++count_));
};

}  // namespace holdfast::test

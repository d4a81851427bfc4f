// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Locked files in a directory, by which a process shows that it lives. runtime/run_directory.hpp says what they are
// for.
//
// Portable version: there are no such files. `open_directory` opens none, and each other function does nothing, or
// answers as it does for a file that is not there. A lock of the standard library or of Boost would not do: it ends as
// soon as its process closes any descriptor of the file, or it can be neither tested nor inherited.

namespace holdfast::platform {

/// A file descriptor that is closed at the end of its scope.
class open_file {
public:
  explicit open_file(int fd) : fd_(fd) {}
  open_file(open_file&& other) noexcept : fd_(other.release()) {}
  open_file& operator=(open_file&&) = delete;
  ~open_file();
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

private:
  int fd_;
};

/// Opens a directory. The descriptor is -1 if it cannot be read, or if it is not on a local file system: a network file
/// system may report a lock as free.
open_file open_directory(const std::string& path);
/// False if another directory has the path now.
bool is_at(const open_file& directory, const std::string& path);
/// Makes a directory that only this user may use. Errors are ignored.
void make_private_directory(const std::string& path);
/// The names in the directory. Nothing if it cannot be read.
std::optional<std::vector<std::string>> names_in(const open_file& directory);

/// Makes a file. It is filled and locked before it gets its name. Until then its name begins with `unnamed`. Sets
/// `error` to an errno, or to 0. The descriptor is close-on-exec.
open_file make_locked(const open_file& directory, const std::string& unnamed, const std::string& name,
                      std::string_view content, int& error);
void remove(const open_file& directory, const std::string& name);
/// False if the file is known to have lost its name.
bool has_name(const open_file& file);

/// A file as it is seen without its lock.
struct lock_finding {
  enum class state {
    unknown,   ///< no such file, no right to read it, or somebody else may have made it or may write to it
    unclear,   ///< this process could not look, for example because it has no descriptor left; it may try again
    locked,    ///< its maker lives
    unlocked,  ///< each process that had the file open is gone or has closed it
  };
  state its = state::unknown;
  std::string content{};  ///< the first 4 KiB, if it is unlocked
  open_file file{-1};     ///< open for reading if it is unlocked
};
/// Opens the file for reading only: to close it after writing would wake everybody who watches the directory.
lock_finding look(const open_file& directory, const std::string& name);

/// Removes a file of this user that has not got its name yet, if it is unlocked and older than that.
void remove_unnamed(const open_file& directory, const std::string& name, std::chrono::seconds age);
/// Removes an unlocked file of this user if it was seen unlocked for longer than that. A file that is seen unlocked for
/// the first time is only marked.
void remove_unlocked(const open_file& directory, const std::string& name, const open_file& file,
                     std::chrono::seconds age);

}  // namespace holdfast::platform

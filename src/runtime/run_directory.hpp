// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::runtime {

/// A directory of this host in which each process keeps a locked file for each of its sessions. The process that made
/// the session is its maker. The kernel unlocks the file when the maker, and each process that has inherited the file
/// from it, is gone. So an unlocked file proves that nobody uses the slots of that session any more.
///
/// Proof is positive only. Everything else is `unknown`: no such file, no right to read it, another user's file, a file
/// that others may write to, a link, a network file system. A file counts only if it belongs to the user of this
/// process or to root. So other users of the host cannot forge a death.
///
/// The functions are thread-safe.
class run_directory {
public:
  enum class state {
    unknown,
    lives,  ///< the file is locked
    gone,
  };

  /// The directory at `path`. There is one object for each path, and it is never destroyed: a file that is closed too
  /// early would be a false proof. Null if the path names no directory on a local file system.
  static run_directory* open(const std::string& path);
  /// The path that is used if the user names none: $HOLDFAST_RUN_DIRECTORY if that is set, else /run/holdfast if it
  /// exists, else $XDG_RUNTIME_DIR/holdfast, which is created if its parent exists. Empty if there is none of them.
  static std::string usual_path();

  const std::string& path() const noexcept { return path_; }

  /// Makes the file of a session that this process has made. The file is filled and locked before it gets its name.
  /// Returns an errno, or 0.
  int made(const std::string& session);
  /// Removes the file of a session that has ended: one of this process, or one whose maker is gone.
  void ended(const std::string& session);
  /// The descriptor of the file of a session of this process. -1 if there is none. It is close-on-exec.
  int descriptor(const std::string& session);

  state look(const std::string& session) const;
  /// The sessions whose makers are gone. Also removes files that nobody needs any more.
  std::vector<std::string> all_gone();
  /// True if the text can be the name of a session's file.
  static bool is_session(std::string_view name);

private:
  run_directory(std::string path, int directory) : path_(std::move(path)), directory_(directory) {}
  int look(const std::string& name, state& found) const;
  void tidy(const std::string& name, int file) const;

  const std::string path_;
  const int directory_;
  std::mutex mutex_;
  std::map<std::string, int> files_;  ///< the descriptors of the files of this process, by session
};

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "platform/locked_files.hpp"

namespace holdfast::runtime {

using platform::open_file;

/// A directory of this host in which each process keeps a locked file for each of its sessions, except those of mutex
/// sets. The process that made the session is its maker. The kernel unlocks the file when the maker, and each process
/// that has inherited the file from it, is gone or has closed it. So an unlocked file proves that nobody uses the slots
/// of that session any more. The file also names the lock, so that only those who wait for that lock act on the proof.
///
/// Proof is positive only. These are `unknown`: no such file, no right to read it, another user's file, a file that
/// others may write to, a link, a network file system. A file counts only if it belongs to the user of this process or
/// to root. So other users of the host cannot forge a death. A user who may read a file can lock it for reading, and so
/// pretend that its maker lives. Then the TTL decides.
///
/// The functions are thread-safe.
class run_directory {
public:
  enum class state {
    unknown,
    unclear,  ///< this process could not look, for example because it has no descriptor left; it may try again
    lives,    ///< the file is locked
    gone,
  };
  struct finding {
    state its = state::unknown;
    std::string lock_key{};  ///< of the lock that the session was made for, if the maker is gone
  };
  struct dead {
    std::string session;
    std::string lock_key;
    bool operator==(const dead&) const = default;
  };
  struct all_dead {
    std::vector<dead> makers{};
    bool is_complete = true;  ///< false if a file was `unclear`, or if the directory could not be read
  };

  /// The directory at `path`. A process has one object for each path, which is never destroyed. Null if there is no
  /// such object yet, and the path names no readable directory on a local file system.
  static run_directory* open(std::string path);
  /// The path that is used if the user names none: $HOLDFAST_RUN_DIRECTORY if that is set, even to nothing, else
  /// /run/holdfast if it exists, else $XDG_RUNTIME_DIR/holdfast, which is created if its parent exists. Empty if there
  /// is none of them.
  static std::string usual_path();

  const std::string& path() const noexcept { return path_; }

  /// A file that this process has made. It was made in `place`, which may have been replaced since.
  struct made_file {
    open_file file;
    std::shared_ptr<const open_file> place{};
  };
  /// Makes the file of a session that this process has made. The file is filled and locked before it gets its name.
  /// Sets `error` to an errno, or to 0. The descriptor is close-on-exec. To close it while the file has its name would
  /// be a false proof.
  made_file make(const std::string& session, const std::string& lock_key, int& error);
  /// Takes its name from a file. Returns false if the file still has a name, so that it must stay open.
  static bool remove(const std::string& session, const made_file& its);
  /// The session has ended. If its maker is gone, the file goes, too.
  void remove_gone(const std::string& session);

  finding look(const std::string& session) const;
  /// Finds the sessions whose makers are gone. Also removes files that nobody needs any more.
  all_dead all_gone();
  /// True if the text can be the name of a session's file.
  static bool is_session(std::string_view name);

private:
  run_directory(std::string path, open_file directory);
  std::shared_ptr<const open_file> directory() const;
  static open_file look(const open_file& directory, const std::string& name, finding& found);

  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const open_file> directory_;
};

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/run_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lifetime/per_process.hpp"

namespace holdfast::runtime {

namespace {

constexpr std::size_t session_max = 64;
constexpr mode_t others_may_write = S_IWGRP | S_IWOTH;
/// A file with this mode was seen unlocked. Its time of modification says since when.
constexpr mode_t seen_gone = S_IRUSR | S_IRGRP | S_IROTH;
constexpr mode_t in_use = seen_gone | S_IWUSR;
/// Files that were seen unlocked are removed after this time. The TTL has ended such a session long before, unless the
/// TTL is longer. Then the TTL decides.
constexpr std::time_t keep_gone_seconds = 3600;
constexpr std::time_t keep_unnamed_seconds = 60;
constexpr std::string_view unnamed = ".new-";
constexpr int names_max = 100;
constexpr std::size_t content_max = 4096;
/// The owner of files whose user has no id in this user namespace.
constexpr uid_t no_user = 65534;

/// For a lock of the open file description (`F_OFD_SETLK`, `F_OFD_GETLK`). A lock of `F_SETLK` would end as soon as the
/// process closes any descriptor of the file.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Whether the file system is known to keep its locks in this kernel. A network file system may report a lock as free.
/// A file system that is not listed here counts as one.
bool is_local(int fd) {
  constexpr long extra[] = {0x58465342 /* xfs */, 0x2fc12fc1 /* zfs */};
  constexpr long known[] = {TMPFS_MAGIC,       RAMFS_MAGIC,      EXT4_SUPER_MAGIC,
                            BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC};
  struct statfs its {};
  if (::fstatfs(fd, &its) != 0) return false;
  const auto is_its = [&](long magic) { return static_cast<long>(its.f_type) == magic; };
  return std::any_of(std::begin(known), std::end(known), is_its) ||
         std::any_of(std::begin(extra), std::end(extra), is_its);
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

/// The session in the first line, and the key of its lock behind it.
std::string content_of(const std::string& session, const std::string& lock_key) { return session + '\n' + lock_key; }

std::optional<std::string> read_lock_key(int fd, const std::string& session) {
  std::array<char, content_max> content;
  const ssize_t size = ::pread(fd, content.data(), content.size(), 0);
  if (size < 0) return {};
  const std::string_view text(content.data(), static_cast<std::size_t>(size));
  if (!text.starts_with(session + '\n')) return {};
  return std::string(text.substr(session.size() + 1));
}

/// Whether each user of the host has an id here. If not, `no_user` may be anybody.
bool knows_all_users() {
  static const bool knows = [] {
    std::ifstream map("/proc/self/uid_map");
    std::uint64_t inside = 1, outside = 1, count = 0;
    return map >> inside >> outside >> count && inside == 0 && outside == 0 && count >= 0xfffffffe;
  }();
  return knows;
}

bool is_of_ours_or_root(uid_t owner) {
  return owner == 0 || (owner == ::geteuid() && (owner != no_user || knows_all_users()));
}

/// Whether an open that failed with this error may succeed later.
bool may_work_later(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EINTR; }

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_directory(const std::string& path) {
  struct stat its {};
  return ::stat(path.c_str(), &its) == 0 && S_ISDIR(its.st_mode);
}

/// Removes an unlocked file of this user that is old enough. A session's file that is seen unlocked for the first time
/// is only marked as `seen_gone`. Errors do not matter: a later call tries again.
void tidy(int directory, const std::string& name, int file) {
  struct stat its {};
  struct flock lock = whole_file(F_RDLCK);
  if (::fstat(file, &its) != 0 || !S_ISREG(its.st_mode) || its.st_uid != ::geteuid()) return;
  if (::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) return;
  const std::time_t age = std::time(nullptr) - its.st_mtime;
  if (name.starts_with(unnamed)) {
    if (age > keep_unnamed_seconds) ::unlinkat(directory, name.c_str(), 0);
  } else if ((its.st_mode & S_IWUSR) != 0) {
    ::fchmod(file, seen_gone);
    ::futimens(file, nullptr);
  } else if (age > keep_gone_seconds) {
    ::unlinkat(directory, name.c_str(), 0);
  }
}

}  // namespace

open_file::~open_file() {
  if (fd_ >= 0) ::close(fd_);
}

run_directory::run_directory(std::string path, open_file directory)
    : path_(std::move(path)), directory_(std::make_shared<const open_file>(std::move(directory))) {}

run_directory* run_directory::open(std::string path) {
  struct all {
    std::mutex mutex{};
    std::map<std::string, std::unique_ptr<run_directory>> directories{};
  };
  static constinit lifetime::per_process<all> all_of_process;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty()) return nullptr;
  all& its = *all_of_process;
  const std::lock_guard lock(its.mutex);
  std::unique_ptr<run_directory>& at = its.directories[path];
  if (at) return at.get();
  open_file directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || !is_local(directory.get())) return nullptr;
  at.reset(new run_directory(path, std::move(directory)));
  return at.get();
}

/// The directory that has the path now. Somebody may have removed the one before, and made another. If there is none
/// now, or if it cannot be used, this is the one before.
std::shared_ptr<const open_file> run_directory::directory() const {
  const std::lock_guard lock(mutex_);
  struct stat named {};
  struct stat opened {};
  const bool is_same = ::stat(path_.c_str(), &named) != 0 || ::fstat(directory_->get(), &opened) != 0 ||
                       (named.st_ino == opened.st_ino && named.st_dev == opened.st_dev);
  if (is_same) return directory_;
  open_file other(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (other.get() >= 0 && is_local(other.get())) directory_ = std::make_shared<const open_file>(std::move(other));
  return directory_;
}

std::string run_directory::usual_path() {
  if (std::getenv("HOLDFAST_RUN_DIRECTORY")) return variable("HOLDFAST_RUN_DIRECTORY");
  std::string of_the_host = "/run/holdfast";
  if (is_directory(of_the_host)) return of_the_host;
  const std::string of_the_user = variable("XDG_RUNTIME_DIR");
  if (of_the_user.empty() || !is_directory(of_the_user)) return {};
  const std::string path = of_the_user + "/holdfast";
  ::mkdir(path.c_str(), S_IRWXU);
  return is_directory(path) ? path : std::string();
}

bool run_directory::is_session(std::string_view name) {
  const auto is_part = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; };
  return !name.empty() && name.size() <= session_max && std::all_of(name.begin(), name.end(), is_part);
}

run_directory::made_file run_directory::make(const std::string& session, const std::string& lock_key, int& error) {
  static std::atomic<unsigned> count{0};
  error = EINVAL;
  if (!is_session(session)) return {open_file(-1)};
  const auto place = directory();
  // Processes of several containers may have the same id, so the name may be taken.
  std::string name;
  int opened = -1;
  for (int attempt = 0; attempt != names_max && opened < 0; ++attempt) {
    name = std::string(unnamed) + std::to_string(::getpid()) + '-' + std::to_string(++count);
    opened =
        ::openat(place->get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (opened < 0 && errno != EEXIST) break;
  }
  error = errno;
  open_file file(opened);
  if (opened < 0) return {std::move(file)};
  struct flock lock = whole_file(F_WRLCK);
  const bool is_done = ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0 &&
                       write_all(file.get(), content_of(session, lock_key)) && ::fchmod(file.get(), in_use) == 0 &&
                       ::renameat(place->get(), name.c_str(), place->get(), session.c_str()) == 0;
  error = is_done ? 0 : errno;
  if (is_done) return {std::move(file), place};
  ::unlinkat(place->get(), name.c_str(), 0);
  return {open_file(-1)};
}

bool run_directory::remove(const std::string& session, const made_file& its) {
  ::unlinkat(its.place->get(), session.c_str(), 0);
  struct stat now {};
  return ::fstat(its.file.get(), &now) == 0 && now.st_nlink == 0;
}

void run_directory::remove_gone(const std::string& session) {
  const auto place = directory();
  finding found;
  const open_file file = look(place->get(), session, found);
  if (found.its == state::gone) ::unlinkat(place->get(), session.c_str(), 0);
}

run_directory::finding run_directory::look(const std::string& session) const {
  finding found;
  look(directory()->get(), session, found);
  return found;
}

/// Opens the file and tells what it proves. It is opened for reading only: to close it after writing would wake
/// everybody who watches the directory. Returns the descriptor if the maker is gone.
open_file run_directory::look(int directory, const std::string& name, finding& found) {
  found = {};
  if (!is_session(name)) return open_file(-1);
  open_file file(::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (may_work_later(errno)) found.its = state::unclear;
    return open_file(-1);
  }
  struct stat its {};
  struct flock lock = whole_file(F_WRLCK);
  if (::fstat(file.get(), &its) != 0 || !S_ISREG(its.st_mode) || !is_of_ours_or_root(its.st_uid) ||
      (its.st_mode & others_may_write) != 0 || !is_local(file.get()) || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0)
    return open_file(-1);
  if (lock.l_type != F_UNLCK) {
    found.its = state::lives;
    return open_file(-1);
  }
  // A file that has lost its name proves nothing: its maker may have ended the session, and still live.
  std::optional<std::string> lock_key = read_lock_key(file.get(), name);
  if (!lock_key || ::fstat(file.get(), &its) != 0 || its.st_nlink != 1) return open_file(-1);
  found = {state::gone, *std::move(lock_key)};
  return file;
}

run_directory::all_dead run_directory::all_gone() {
  all_dead result;
  const auto place = directory();
  open_file again(::openat(place->get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again.get() < 0 ? nullptr : ::fdopendir(again.get()), &::closedir);
  result.is_complete = list != nullptr;
  if (!list) return result;
  again.release();
  while (const dirent* const each = ::readdir(list.get())) {
    std::string name = each->d_name;
    if (name.starts_with(unnamed)) {
      const open_file file(::openat(place->get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (file.get() >= 0) tidy(place->get(), name, file.get());
      continue;
    }
    finding found;
    const open_file file = look(place->get(), name, found);
    result.is_complete = result.is_complete && found.its != state::unclear;
    if (found.its != state::gone) continue;
    tidy(place->get(), name, file.get());
    result.makers.push_back({std::move(name), std::move(found.lock_key)});
  }
  return result;
}

}  // namespace holdfast::runtime

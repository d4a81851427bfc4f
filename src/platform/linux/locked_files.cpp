// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/locked_files.hpp"

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
#include <ctime>
#include <fstream>
#include <memory>

namespace holdfast::platform {

namespace {

constexpr mode_t others_may_write = S_IWGRP | S_IWOTH;
/// A file with this mode was seen unlocked. Its time of modification says since when.
constexpr mode_t seen_unlocked = S_IRUSR | S_IRGRP | S_IROTH;
constexpr mode_t in_use = seen_unlocked | S_IWUSR;
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

/// Whether the file system is known to keep its locks in this kernel. A file system that is not listed here counts as a
/// network file system.
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

int open_to_look(const open_file& directory, const std::string& name) {
  return ::openat(directory.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/// Whether this user's process may remove the file, as far as its lock and its owner are concerned.
bool is_removable(int file, struct stat& its) {
  struct flock lock = whole_file(F_RDLCK);
  return ::fstat(file, &its) == 0 && S_ISREG(its.st_mode) && its.st_uid == ::geteuid() &&
         ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

bool is_older(const struct stat& its, std::chrono::seconds age) {
  return std::time(nullptr) - its.st_mtime > age.count();
}

}  // namespace

open_file::~open_file() {
  if (fd_ >= 0) ::close(fd_);
}

open_file open_directory(const std::string& path) {
  open_file directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || !is_local(directory.get())) return open_file(-1);
  return directory;
}

bool is_at(const open_file& directory, const std::string& path) {
  struct stat named {};
  struct stat opened {};
  return ::stat(path.c_str(), &named) != 0 || ::fstat(directory.get(), &opened) != 0 ||
         (named.st_ino == opened.st_ino && named.st_dev == opened.st_dev);
}

void make_private_directory(const std::string& path) { ::mkdir(path.c_str(), S_IRWXU); }

std::optional<std::vector<std::string>> names_in(const open_file& directory) {
  open_file again(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(again.get() < 0 ? nullptr : ::fdopendir(again.get()), &::closedir);
  if (!list) return {};
  again.release();
  std::vector<std::string> names;
  while (const dirent* const each = ::readdir(list.get())) names.emplace_back(each->d_name);
  return names;
}

open_file make_locked(const open_file& directory, const std::string& unnamed, const std::string& name,
                      std::string_view content, int& error) {
  static std::atomic<unsigned> count{0};
  // Processes of several containers may have the same id, so the name may be taken.
  std::string first_name;
  int opened = -1;
  for (int attempt = 0; attempt != names_max && opened < 0; ++attempt) {
    first_name = unnamed + std::to_string(::getpid()) + '-' + std::to_string(++count);
    opened = ::openat(directory.get(), first_name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                      S_IRUSR | S_IWUSR);
    if (opened < 0 && errno != EEXIST) break;
  }
  error = errno;
  open_file file(opened);
  if (opened < 0) return file;
  struct flock lock = whole_file(F_WRLCK);
  const bool is_done = ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0 && write_all(file.get(), content) &&
                       ::fchmod(file.get(), in_use) == 0 &&
                       ::renameat(directory.get(), first_name.c_str(), directory.get(), name.c_str()) == 0;
  error = is_done ? 0 : errno;
  if (is_done) return file;
  ::unlinkat(directory.get(), first_name.c_str(), 0);
  return open_file(-1);
}

void remove(const open_file& directory, const std::string& name) { ::unlinkat(directory.get(), name.c_str(), 0); }

bool has_name(const open_file& file) {
  struct stat now {};
  return ::fstat(file.get(), &now) != 0 || now.st_nlink != 0;
}

lock_finding look(const open_file& directory, const std::string& name) {
  using state = lock_finding::state;
  open_file file(open_to_look(directory, name));
  if (file.get() < 0) return {may_work_later(errno) ? state::unclear : state::unknown};
  struct stat its {};
  struct flock lock = whole_file(F_WRLCK);
  if (::fstat(file.get(), &its) != 0 || !S_ISREG(its.st_mode) || !is_of_ours_or_root(its.st_uid) ||
      (its.st_mode & others_may_write) != 0 || !is_local(file.get()) || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0)
    return {};
  if (lock.l_type != F_UNLCK) return {state::locked};
  // A file that has lost its name proves nothing: its maker may have ended the session, and still live.
  std::array<char, content_max> content;
  const ssize_t size = ::pread(file.get(), content.data(), content.size(), 0);
  if (size < 0 || ::fstat(file.get(), &its) != 0 || its.st_nlink != 1) return {};
  return {state::unlocked, std::string(content.data(), static_cast<std::size_t>(size)), std::move(file)};
}

// In the next two functions, errors do not matter: a later call tries again.
void remove_unnamed(const open_file& directory, const std::string& name, std::chrono::seconds age) {
  const open_file file(open_to_look(directory, name));
  struct stat its {};
  if (file.get() >= 0 && is_removable(file.get(), its) && is_older(its, age)) remove(directory, name);
}

void remove_unlocked(const open_file& directory, const std::string& name, const open_file& file,
                     std::chrono::seconds age) {
  struct stat its {};
  if (!is_removable(file.get(), its)) return;
  if ((its.st_mode & S_IWUSR) != 0) {
    ::fchmod(file.get(), seen_unlocked);
    ::futimens(file.get(), nullptr);
  } else if (is_older(its, age)) {
    remove(directory, name);
  }
}

}  // namespace holdfast::platform

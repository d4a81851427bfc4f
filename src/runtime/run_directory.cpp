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
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>

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

/// A file descriptor that is closed at the end of its scope.
class open_file {
public:
  explicit open_file(int fd) : fd_(fd) {}
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_;
};

/// A lock of the open file description. `F_SETLK` would lose the lock with any descriptor of the process for the file.
struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

/// Whether locks on this file system are the kernel's own. A network file system may report a lock as free.
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

bool says(int fd, std::string_view text) {
  std::array<char, session_max + 1> content;
  const ssize_t size = ::pread(fd, content.data(), content.size(), 0);
  return size >= 0 && std::string_view(content.data(), static_cast<std::size_t>(size)) == text;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_directory(const std::string& path) {
  struct stat its {};
  return ::stat(path.c_str(), &its) == 0 && S_ISDIR(its.st_mode);
}

}  // namespace

run_directory* run_directory::open(const std::string& path) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::unique_ptr<run_directory>>();
  if (path.empty()) return nullptr;
  const std::lock_guard lock(mutex);
  std::unique_ptr<run_directory>& at = all[path];
  if (at) return at.get();
  open_file directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || !is_local(directory.get())) return nullptr;
  at.reset(new run_directory(path, directory.release()));
  return at.get();
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

int run_directory::made(const std::string& session) {
  static std::atomic<unsigned> count{0};
  if (!is_session(session)) return EINVAL;
  // Processes of several containers may have the same id, so the name may be taken.
  std::string name;
  int opened = -1;
  for (int attempt = 0; attempt != names_max && opened < 0; ++attempt) {
    name = std::string(unnamed) + std::to_string(::getpid()) + '-' + std::to_string(++count);
    opened = ::openat(directory_, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    if (opened < 0 && errno != EEXIST) break;
  }
  if (opened < 0) return errno;
  open_file file(opened);
  struct flock lock = whole_file(F_WRLCK);
  const bool is_done = ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0 && write_all(file.get(), session) &&
                       ::fchmod(file.get(), in_use) == 0 &&
                       ::renameat(directory_, name.c_str(), directory_, session.c_str()) == 0;
  if (!is_done) {
    const int why = errno;
    ::unlinkat(directory_, name.c_str(), 0);
    return why;
  }
  const std::lock_guard guard(mutex_);
  const auto [at, is_new] = files_.emplace(session, file.get());
  if (!is_new) ::close(std::exchange(at->second, file.get()));
  file.release();
  return 0;
}

void run_directory::ended(const std::string& session) {
  if (!is_session(session)) return;
  const std::lock_guard guard(mutex_);
  const auto at = files_.find(session);
  if (at == files_.end()) {
    if (look(session) == state::gone) ::unlinkat(directory_, session.c_str(), 0);
    return;
  }
  ::unlinkat(directory_, session.c_str(), 0);  // before it is unlocked
  ::close(at->second);
  files_.erase(at);
}

int run_directory::descriptor(const std::string& session) {
  const std::lock_guard guard(mutex_);
  const auto at = files_.find(session);
  return at == files_.end() ? -1 : at->second;
}

run_directory::state run_directory::look(const std::string& session) const {
  state found = state::unknown;
  const int file = look(session, found);
  if (file >= 0) ::close(file);
  return found;
}

/// Opens the file and tells what it proves. It is opened for reading only: to close it after writing would wake
/// everybody who watches the directory. Returns the descriptor, or -1.
int run_directory::look(const std::string& name, state& found) const {
  found = state::unknown;
  if (!is_session(name)) return -1;
  open_file file(::openat(directory_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat its {};
  if (file.get() < 0 || ::fstat(file.get(), &its) != 0) return -1;
  const bool is_trusted = S_ISREG(its.st_mode) && (its.st_uid == ::geteuid() || its.st_uid == 0) &&
                          (its.st_mode & others_may_write) == 0 && is_local(file.get());
  struct flock lock = whole_file(F_WRLCK);
  if (!is_trusted || ::fcntl(file.get(), F_OFD_GETLK, &lock) != 0) return -1;
  if (lock.l_type != F_UNLCK) {
    found = state::lives;
    return -1;
  }
  // A file without a name belongs to a session that its maker has ended.
  if (!says(file.get(), name) || ::fstat(file.get(), &its) != 0 || its.st_nlink != 1) return -1;
  found = state::gone;
  return file.release();
}

std::vector<std::string> run_directory::all_gone() {
  std::vector<std::string> result;
  const int again = ::openat(directory_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = again < 0 ? nullptr : ::fdopendir(again);
  if (!list) {
    if (again >= 0) ::close(again);
    return result;
  }
  while (const dirent* const each = ::readdir(list)) {
    std::string name = each->d_name;
    if (name.starts_with(unnamed)) {
      const open_file file(::openat(directory_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (file.get() >= 0) tidy(name, file.get());
      continue;
    }
    state found{};
    const open_file file(look(name, found));
    if (found != state::gone) continue;
    tidy(name, file.get());
    result.push_back(std::move(name));
  }
  ::closedir(list);
  return result;
}

/// Removes an unlocked file that is old enough. Errors do not matter: the file may be another user's.
void run_directory::tidy(const std::string& name, int file) const {
  struct stat its {};
  struct flock lock = whole_file(F_RDLCK);
  if (::fstat(file, &its) != 0 || !S_ISREG(its.st_mode) || its.st_uid != ::geteuid()) return;
  if (::fcntl(file, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) return;
  const std::time_t age = std::time(nullptr) - its.st_mtime;
  if (name.starts_with(unnamed)) {
    if (age > keep_unnamed_seconds) ::unlinkat(directory_, name.c_str(), 0);
  } else if ((its.st_mode & S_IWUSR) != 0) {
    ::fchmod(file, seen_gone);
    ::futimens(file, nullptr);
  } else if (age > keep_gone_seconds) {
    ::unlinkat(directory_, name.c_str(), 0);
  }
}

}  // namespace holdfast::runtime

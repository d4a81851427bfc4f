// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/folder_watch.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <utility>

namespace holdfast::platform {

namespace asio = boost::asio;

namespace {

class descriptor_waiter final : public folder_watch::waiter {
public:
  explicit descriptor_waiter(const asio::any_io_executor& executor) : descriptor_(executor) {}
  boost::system::error_code assign(int descriptor) {
    boost::system::error_code failed;
    descriptor_.assign(descriptor, failed);
    return failed;
  }
  void async_wait(std::function<void(const boost::system::error_code&)> readable) override {
    descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, std::move(readable));
  }

private:
  asio::posix::stream_descriptor descriptor_;
};

class inotify_watch final : public folder_watch {
public:
  /// The kernel may tell late, or never, that a directory was removed, because an open file in it keeps it. So the
  /// directory above is watched, too.
  inotify_watch(int descriptor, std::string path)
      : descriptor_(descriptor),
        path_(std::move(path)),
        name_(std::filesystem::path(path_).filename()),
        above_(::inotify_add_watch(descriptor, std::filesystem::path(path_).parent_path().c_str(),
                                   IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)) {}
  inotify_watch(const inotify_watch&) = delete;
  inotify_watch& operator=(const inotify_watch&) = delete;
  ~inotify_watch() override { ::close(descriptor_); }

  bool watches() override {
    const std::lock_guard lock(mutex_);
    if (is_mounted_over()) ::inotify_rm_watch(descriptor_, std::exchange(watched_, -1));
    if (watched_ < 0)
      watched_ = ::inotify_add_watch(descriptor_, path_.c_str(), IN_CLOSE_WRITE | IN_DELETE | IN_ONLYDIR);
    struct stat its {};
    if (::stat(path_.c_str(), &its) == 0) seen_ = {its.st_dev, its.st_ino};
    return watched_ >= 0 && above_ >= 0;
  }

  events read() override {
    alignas(inotify_event) std::array<char, 16 * 1024> buffer;
    events result;
    for (ssize_t size; (size = ::read(descriptor_, buffer.data(), buffer.size())) > 0;) {
      for (const char* at = buffer.data(); at < buffer.data() + size;) {
        inotify_event event;
        std::memcpy(&event, at, sizeof event);
        std::string name = event.len == 0 ? "" : at + sizeof event;
        if (is_of_the_directory(event, name) || (event.mask & IN_Q_OVERFLOW) != 0) result.is_incomplete = true;
        if (event.wd != above_) result.files.push_back({std::move(name), (event.mask & IN_DELETE) != 0});
        at += sizeof event + event.len;
      }
    }
    return result;
  }

  std::unique_ptr<waiter> make_waiter(const asio::any_io_executor& executor) override {
    const int its = ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    if (its < 0) return nullptr;
    auto made = std::make_unique<descriptor_waiter>(executor);
    if (!made->assign(its)) return made;
    ::close(its);  // the user may have no more watches of epoll
    return nullptr;
  }

private:
  /// Whether the event says that another directory, or none, has the path now.
  bool is_of_the_directory(const inotify_event& event, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const bool is_its = event.wd == above_ ? name == name_ : event.wd == watched_ && (event.mask & IN_IGNORED) != 0;
    if (!is_its) return false;
    if (watched_ >= 0) ::inotify_rm_watch(descriptor_, std::exchange(watched_, -1));
    return true;
  }

  /// Another directory has the path, and the kernel has not told so.
  bool is_mounted_over() const {
    struct stat its {};
    return watched_ >= 0 && ::stat(path_.c_str(), &its) == 0 && seen_ != std::pair(its.st_dev, its.st_ino);
  }

  const int descriptor_;
  const std::string path_, name_;
  const int above_;
  std::mutex mutex_;
  int watched_ = -1;
  std::pair<dev_t, ino_t> seen_{};  ///< the watched directory
};

}  // namespace

std::shared_ptr<folder_watch> folder_watch::make(const std::string& path) {
  const int descriptor = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (descriptor < 0) return nullptr;
  return std::make_shared<inotify_watch>(descriptor, path);
}

void make_waiter_services(const asio::any_io_executor& executor) {
  const asio::posix::stream_descriptor descriptor(executor);
}

}  // namespace holdfast::platform

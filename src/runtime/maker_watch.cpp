// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/maker_watch.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "lifetime/per_process.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto look_interval = 1s;
constexpr auto look_again_after = 50ms;
/// The kernel tells that a file was closed before it unlocks the file. So the watch checks the file again after these
/// times. The last ones are for a process that could not look, for want of descriptors.
constexpr std::chrono::milliseconds pauses[] = {1ms, 2ms, 5ms, 10ms, 50ms, 200ms, 1s, 2s};

template <class Key, class Value>
std::shared_ptr<Value> find_living(std::map<Key, std::weak_ptr<Value>>& all, const Key& key) {
  std::erase_if(all, [](const auto& each) { return each.second.expired(); });
  const auto at = all.find(key);
  return at == all.end() ? nullptr : at->second.lock();
}

}  // namespace

/// The inotify instance of one directory, which all contexts of the process share. Whichever of them is woken first
/// reads the events and passes them on to all.
class maker_watch::hub {
public:
  static std::shared_ptr<hub> of(const run_directory& directory) {
    const std::lock_guard lock(hubs->mutex);
    std::shared_ptr<hub> its = find_living(hubs->all, &directory);
    if (its) return its;
    const int events = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (events < 0) return nullptr;
    its = std::make_shared<hub>(events, directory.path());
    if (!its->watches()) return nullptr;
    hubs->all[&directory] = its;
    return its;
  }
  static std::size_t count() {
    const std::lock_guard lock(hubs->mutex);
    return static_cast<std::size_t>(
        std::count_if(hubs->all.begin(), hubs->all.end(), [](const auto& each) { return !each.second.expired(); }));
  }

  /// The kernel may tell late, or never, that a directory was removed, because an open file in it keeps it. So the
  /// directory above is watched, too.
  hub(int events, std::string path)
      : events_(events),
        path_(std::move(path)),
        name_(std::filesystem::path(path_).filename()),
        above_(::inotify_add_watch(events, std::filesystem::absolute(path_).parent_path().c_str(),
                                   IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR)) {}
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;
  ~hub() { ::close(events_); }

  /// Asks the kernel for the events of the directory that has the path now, if that has not been done. Returns false if
  /// that directory or the one above it cannot be watched, for example because it does not exist.
  bool watches() {
    const std::lock_guard lock(mutex_);
    if (is_mounted_over()) ::inotify_rm_watch(events_, std::exchange(watched_, -1));
    if (watched_ < 0) watched_ = ::inotify_add_watch(events_, path_.c_str(), IN_CLOSE_WRITE | IN_DELETE | IN_ONLYDIR);
    struct stat its {};
    if (::stat(path_.c_str(), &its) == 0) seen_ = {its.st_dev, its.st_ino};
    return watched_ >= 0 && above_ >= 0;
  }

  /// A descriptor that is readable when `read` has something to read. The caller closes it.
  int duplicate() const { return ::fcntl(events_, F_DUPFD_CLOEXEC, 0); }

  void add(const std::shared_ptr<maker_watch>& watch) {
    const std::lock_guard lock(hubs->mutex);
    watches_[watch.get()] = watch;
  }
  void remove(const maker_watch& watch) {
    const std::lock_guard lock(hubs->mutex);
    watches_.erase(&watch);
  }

  void read() {
    alignas(inotify_event) std::array<char, 16 * 1024> buffer;
    struct file_event {
      std::string name;
      bool is_removal;
    };
    std::vector<file_event> files;
    bool must_look_at_all = false;
    // The descriptor does not block, and weak_ptr::lock() is no lock.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    for (ssize_t size; (size = ::read(events_, buffer.data(), buffer.size())) > 0;) {
      for (const char* at = buffer.data(); at < buffer.data() + size;) {
        inotify_event event;
        std::memcpy(&event, at, sizeof event);
        std::string name = event.len == 0 ? "" : at + sizeof event;
        const bool is_other_directory = is_of_the_directory(event, name);
        must_look_at_all = must_look_at_all || is_other_directory || (event.mask & IN_Q_OVERFLOW) != 0;
        if (event.wd != above_ && run_directory::is_session(name))
          files.push_back({std::move(name), (event.mask & IN_DELETE) != 0});
        at += sizeof event + event.len;
      }
    }
    std::vector<std::shared_ptr<maker_watch>> watches;
    {
      const std::lock_guard lock(hubs->mutex);
      for (const auto& [address, each] : watches_)
        if (auto its = each.lock()) watches.push_back(std::move(its));
    }
    for (const auto& watch : watches) {
      const std::lock_guard lock(watch->mutex_);
      if (!watch->events_) continue;
      if (must_look_at_all) asio::post(watch->executor_, [watch] { watch->look_at_all(); });
      for (const file_event& each : files)
        asio::post(watch->executor_, [watch, each] {
          if (each.is_removal)
            watch->file_removed(each.name);
          else
            watch->heard_of(each.name, 0);
        });
    }
  }

private:
  struct hubs_of_process {
    std::mutex mutex{};
    std::map<const run_directory*, std::weak_ptr<hub>> all{};
  };
  static constinit lifetime::per_process<hubs_of_process> hubs;

  /// Whether the event says that another directory, or none, has the path now. Then `watches` must be called again.
  bool is_of_the_directory(const inotify_event& event, const std::string& name) {
    const std::lock_guard lock(mutex_);
    const bool is_its = event.wd == above_ ? name == name_ : event.wd == watched_ && (event.mask & IN_IGNORED) != 0;
    if (!is_its) return false;
    if (watched_ >= 0) ::inotify_rm_watch(events_, std::exchange(watched_, -1));
    return true;
  }

  /// Another directory has the path, and the kernel has not told so.
  bool is_mounted_over() const {
    struct stat its {};
    return watched_ >= 0 && ::stat(path_.c_str(), &its) == 0 && seen_ != std::pair(its.st_dev, its.st_ino);
  }

  const int events_;
  const std::string path_, name_;
  const int above_;
  std::mutex mutex_;
  int watched_ = -1;
  std::pair<dev_t, ino_t> seen_{};  ///< the watched directory
  std::map<const maker_watch*, std::weak_ptr<maker_watch>> watches_;
};

constinit lifetime::per_process<maker_watch::hub::hubs_of_process> maker_watch::hub::hubs;

std::shared_ptr<maker_watch> maker_watch::of(run_directory& directory, const asio::any_io_executor& executor) {
  using key = std::pair<const run_directory*, const asio::execution_context*>;
  struct watches {
    std::mutex mutex{};
    std::map<key, std::weak_ptr<maker_watch>> all{};
  };
  static constinit lifetime::per_process<watches> watches_of_process;
  watches& ours = *watches_of_process;
  const key its{&directory, &asio::query(executor, asio::execution::context)};
  const std::lock_guard lock(ours.mutex);
  std::shared_ptr<maker_watch> found = find_living(ours.all, its);
  if (found && found->has_context()) return found;
  found = lifetime::make_hooked<maker_watch>(directory, executor);
  ours.all[its] = found;
  return found;
}

maker_watch::maker_watch(run_directory& directory, const asio::any_io_executor& executor)
    : context_hook(executor), directory_(directory), executor_(executor) {}

maker_watch::~maker_watch() { unhook(); }

/// False if the context has been destroyed. Another context may have the same address now.
bool maker_watch::has_context() {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(executor_);
}

std::size_t maker_watch::instances() { return hub::count(); }

void maker_watch::add(const void* who, std::string lock_key, listener heard) {
  auto its = std::make_shared<const listening>(listening{std::move(lock_key), std::move(heard)});
  const std::lock_guard lock(mutex_);
  if (!executor_) return;
  if (listeners_.empty()) start();
  listeners_[who] = std::move(its);
  asio::post(executor_, [self = shared_from_this()] { self->look_at_all(); });
  // Once more, because the kernel may have told of a close before, and unlock the file only now.
  const auto again = std::make_shared<asio::steady_timer>(executor_, look_again_after);
  again->async_wait([weak = weak_from_this(), again](const boost::system::error_code& ec) {
    if (const auto self = weak.lock(); !ec && self) self->look_at_all();
  });
}

void maker_watch::remove(const void* who) {
  std::shared_ptr<const listening> removed;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = listeners_.find(who);
  if (at == listeners_.end()) return;
  removed = std::move(at->second);
  listeners_.erase(at);
  if (listeners_.empty()) stop();
}

/// Without an inotify instance, `look_at_all` goes on for itself.
void maker_watch::start() {
  hub_ = hub::of(directory_);
  const int events = hub_ ? hub_->duplicate() : -1;
  boost::system::error_code failed;
  if (events >= 0) events_.emplace(executor_).assign(events, failed);
  if (events < 0 || failed) {  // the user may have no more watches of epoll
    if (events >= 0) ::close(events);
    events_.reset();
    return hub_.reset();
  }
  hub_->add(shared_from_this());
  wait_for_kernel();
}

void maker_watch::stop() {
  if (hub_) hub_->remove(*this);
  hub_.reset();
  events_.reset();
  next_look_.reset();
  told_.clear();
}

void maker_watch::wait_for_kernel() {
  events_->async_wait(asio::posix::stream_descriptor::wait_read,
                      [weak = weak_from_this()](const boost::system::error_code& ec) {
                        const auto self = weak.lock();
                        if (ec || !self) return;
                        std::shared_ptr<hub> its;
                        {
                          const std::lock_guard lock(self->mutex_);
                          its = self->hub_;
                        }
                        if (!its) return;
                        its->read();
                        const std::lock_guard lock(self->mutex_);
                        if (self->events_ && self->hub_ == its) self->wait_for_kernel();
                      });
}

/// Looks at all files. Does so again a while later, if it was not done in full, or if the kernel does not tell of what
/// comes then.
void maker_watch::look_at_all() {
  bool must_look_again = false;
  {
    const std::lock_guard lock(mutex_);
    if (listeners_.empty()) return;
    must_look_again = !hub_ || !hub_->watches();
  }
  const run_directory::all_dead found = directory_.all_gone();
  for (const run_directory::dead& each : found.makers) tell(each, news::gone);
  const std::lock_guard lock(mutex_);
  if (listeners_.empty() || (found.is_complete && !must_look_again)) return;
  if (!next_look_) next_look_.emplace(executor_);
  next_look_->expires_after(look_interval);
  next_look_->async_wait([weak = weak_from_this()](const boost::system::error_code& ec) {
    if (const auto self = weak.lock(); !ec && self) self->look_at_all();
  });
}

void maker_watch::heard_of(const std::string& session, std::size_t attempt) {
  run_directory::finding found = directory_.look(session);
  if (found.its == run_directory::state::gone) return tell({session, std::move(found.lock_key)}, news::gone);
  if (found.its == run_directory::state::unknown) return;
  const std::lock_guard lock(mutex_);
  if (attempt == std::size(pauses) || listeners_.empty()) return;
  const auto timer = std::make_shared<asio::steady_timer>(executor_, pauses[attempt]);
  timer->async_wait([weak = weak_from_this(), session, attempt, timer](const boost::system::error_code& ec) {
    const auto self = weak.lock();
    if (!ec && self) self->heard_of(session, attempt + 1);
  });
}

void maker_watch::file_removed(const std::string& session) {
  run_directory::dead maker{session, {}};
  {
    const std::lock_guard lock(mutex_);
    const auto at = told_.find(session);
    if (at == told_.end()) return;
    maker.lock_key = at->second;
  }
  tell(maker, news::file_removed);
}

void maker_watch::tell(const run_directory::dead& maker, news what) {
  std::vector<std::shared_ptr<const listening>> all;
  {
    const std::lock_guard lock(mutex_);
    if (listeners_.empty()) return;
    if (what == news::gone)
      told_.emplace(maker.session, maker.lock_key);
    else
      told_.erase(maker.session);
    for (const auto& [who, each] : listeners_)
      if (each->lock_key == maker.lock_key) all.push_back(each);
  }
  for (const auto& each : all) each->heard(maker.session, what);
}

std::shared_ptr<void> maker_watch::on_context_shutdown() noexcept {
  auto left = std::make_shared<std::map<const void*, std::shared_ptr<const listening>>>();
  const std::lock_guard lock(mutex_);
  left->swap(listeners_);
  stop();
  executor_ = {};
  return left;
}

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/maker_watch.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

namespace holdfast::runtime {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto poll_interval = 1s;
/// The kernel tells that a file was closed before it unlocks the file. So the watch checks the file again after these
/// times.
constexpr std::chrono::milliseconds pauses[] = {1ms, 2ms, 5ms, 10ms, 50ms, 200ms};

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
    const std::lock_guard lock(mutex());
    std::shared_ptr<hub> its = find_living(all(), &directory);
    if (its) return its;
    const int events = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (events < 0) return nullptr;
    its = std::make_shared<hub>(events);
    if (::inotify_add_watch(events, directory.path().c_str(), IN_CLOSE_WRITE | IN_ONLYDIR) < 0) return nullptr;
    all()[&directory] = its;
    return its;
  }
  static std::size_t count() {
    const std::lock_guard lock(mutex());
    return static_cast<std::size_t>(
        std::count_if(all().begin(), all().end(), [](const auto& each) { return !each.second.expired(); }));
  }

  explicit hub(int events) : events_(events) {}
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;
  ~hub() { ::close(events_); }

  /// A descriptor that is readable when `read` has something to read. The caller closes it.
  int duplicate() const { return ::fcntl(events_, F_DUPFD_CLOEXEC, 0); }

  void add(const std::shared_ptr<maker_watch>& watch) {
    const std::lock_guard lock(mutex());
    watches_[watch.get()] = watch;
  }
  void remove(const maker_watch& watch) {
    const std::lock_guard lock(mutex());
    watches_.erase(&watch);
  }

  void read() {
    alignas(inotify_event) std::array<char, 16 * 1024> buffer;
    std::vector<std::string> names;
    bool has_overflown = false;
    // The descriptor does not block, and weak_ptr::lock() is no lock.
    // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection)
    for (ssize_t size; (size = ::read(events_, buffer.data(), buffer.size())) > 0;) {
      for (const char* at = buffer.data(); at < buffer.data() + size;) {
        inotify_event event;
        std::memcpy(&event, at, sizeof event);
        has_overflown = has_overflown || (event.mask & IN_Q_OVERFLOW) != 0;
        std::string name = event.len == 0 ? "" : at + sizeof event;
        if (run_directory::is_session(name)) names.push_back(std::move(name));
        at += sizeof event + event.len;
      }
    }
    std::vector<std::shared_ptr<maker_watch>> watches;
    {
      const std::lock_guard lock(mutex());
      for (const auto& [address, each] : watches_)
        if (auto its = each.lock()) watches.push_back(std::move(its));
    }
    for (const auto& watch : watches) {
      const std::lock_guard lock(watch->mutex_);
      if (!watch->events_) continue;
      if (has_overflown) {
        const auto gone = watch->directory_.all_gone();
        names.insert(names.end(), gone.begin(), gone.end());
      }
      for (const std::string& name : names) asio::post(watch->executor_, [watch, name] { watch->heard_of(name, 0); });
    }
  }

private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<const run_directory*, std::weak_ptr<hub>>& all() {
    static auto& hubs = *new std::map<const run_directory*, std::weak_ptr<hub>>();
    return hubs;
  }

  const int events_;
  std::map<const maker_watch*, std::weak_ptr<maker_watch>> watches_;
};

std::shared_ptr<maker_watch> maker_watch::of(run_directory& directory, const asio::any_io_executor& executor) {
  using key = std::pair<const run_directory*, const asio::execution_context*>;
  static std::mutex mutex;
  static auto& all = *new std::map<key, std::weak_ptr<maker_watch>>();
  const key its{&directory, &asio::query(executor, asio::execution::context)};
  const std::lock_guard lock(mutex);
  std::shared_ptr<maker_watch> found = find_living(all, its);
  if (found && found->has_context()) return found;
  found = consul::detail::make_hooked<maker_watch>(directory, executor);
  all[its] = found;
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

void maker_watch::add(const void* who, listener heard) {
  const auto shared = std::make_shared<const listener>(std::move(heard));
  const std::lock_guard lock(mutex_);
  if (!executor_) return;
  if (listeners_.empty()) start();
  listeners_[who] = shared;
  asio::post(executor_, [self = shared_from_this(), shared] {
    for (const std::string& session : self->directory_.all_gone()) (*shared)(session);
  });
}

void maker_watch::remove(const void* who) {
  std::shared_ptr<const listener> removed;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = listeners_.find(who);
  if (at == listeners_.end()) return;
  removed = std::move(at->second);
  listeners_.erase(at);
  if (listeners_.empty()) stop();
}

void maker_watch::start() {
  hub_ = hub::of(directory_);
  const int events = hub_ ? hub_->duplicate() : -1;
  if (events < 0) {
    hub_.reset();
    poll_.emplace(executor_);
    return poll_later();
  }
  boost::system::error_code failed;
  events_.emplace(executor_);
  events_->assign(events, failed);
  if (failed) {  // the user may have no more watches of epoll
    ::close(events);
    events_.reset();
    hub_.reset();
    poll_.emplace(executor_);
    return poll_later();
  }
  hub_->add(shared_from_this());
  wait_for_kernel();
}

void maker_watch::stop() {
  if (hub_) hub_->remove(*this);
  hub_.reset();
  events_.reset();
  poll_.reset();
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

void maker_watch::poll_later() {
  poll_->expires_after(poll_interval);
  poll_->async_wait([weak = weak_from_this()](const boost::system::error_code& ec) {
    const auto self = weak.lock();
    if (ec || !self) return;
    for (const std::string& session : self->directory_.all_gone()) self->tell(session);
    const std::lock_guard lock(self->mutex_);
    if (self->poll_) self->poll_later();
  });
}

void maker_watch::heard_of(const std::string& session, std::size_t attempt) {
  switch (directory_.look(session)) {
    case run_directory::state::gone:
      return tell(session);
    case run_directory::state::unknown:
      return;
    case run_directory::state::lives:
      break;
  }
  const std::lock_guard lock(mutex_);
  if (attempt == std::size(pauses) || listeners_.empty() || !executor_) return;
  const auto timer = std::make_shared<asio::steady_timer>(executor_, pauses[attempt]);
  timer->async_wait([weak = weak_from_this(), session, attempt, timer](const boost::system::error_code& ec) {
    const auto self = weak.lock();
    if (!ec && self) self->heard_of(session, attempt + 1);
  });
}

void maker_watch::tell(const std::string& session) {
  std::vector<std::shared_ptr<const listener>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [who, each] : listeners_) all.push_back(each);
  }
  for (const auto& each : all) (*each)(session);
}

std::shared_ptr<void> maker_watch::on_context_shutdown() noexcept {
  auto left = std::make_shared<std::map<const void*, std::shared_ptr<const listener>>>();
  const std::lock_guard lock(mutex_);
  left->swap(listeners_);
  stop();
  executor_ = {};
  return left;
}

}  // namespace holdfast::runtime

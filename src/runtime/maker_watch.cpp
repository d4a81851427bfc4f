// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/maker_watch.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
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
    std::shared_ptr<platform::folder_watch> events = platform::folder_watch::make(directory.path());
    if (!events || !events->watches()) return nullptr;
    its = std::make_shared<hub>(std::move(events));
    hubs->all[&directory] = its;
    return its;
  }
  static std::size_t count() {
    const std::lock_guard lock(hubs->mutex);
    return static_cast<std::size_t>(
        std::count_if(hubs->all.begin(), hubs->all.end(), [](const auto& each) { return !each.second.expired(); }));
  }

  explicit hub(std::shared_ptr<platform::folder_watch> events) : events_(std::move(events)) {}

  /// Returns false if the kernel does not tell of what happens in the directory that has the path now.
  bool watches() { return events_->watches(); }

  /// Waits until `read` has something to read. Null if that cannot be done.
  std::unique_ptr<platform::folder_watch::waiter> make_waiter(const asio::any_io_executor& executor) {
    return events_->make_waiter(executor);
  }

  void add(const std::shared_ptr<maker_watch>& watch) {
    const std::lock_guard lock(hubs->mutex);
    watches_[watch.get()] = watch;
  }
  void remove(const maker_watch& watch) {
    const std::lock_guard lock(hubs->mutex);
    watches_.erase(&watch);
  }

  void read() {
    platform::folder_watch::events found = events_->read();
    std::erase_if(found.files, [](const auto& each) { return !run_directory::is_session(each.name); });
    std::vector<std::shared_ptr<maker_watch>> watches;
    {
      const std::lock_guard lock(hubs->mutex);
      for (const auto& [address, each] : watches_)
        if (auto its = each.lock()) watches.push_back(std::move(its));
    }
    for (const auto& watch : watches) {
      const std::lock_guard lock(watch->mutex_);
      if (!watch->events_) continue;
      if (found.is_incomplete) asio::post(watch->executor_, [watch] { watch->look_at_all(); });
      for (const platform::folder_watch::file_event& each : found.files)
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

  const std::shared_ptr<platform::folder_watch> events_;
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
  if (hub_) events_ = hub_->make_waiter(executor_);
  if (!events_) return hub_.reset();
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
  events_->async_wait([weak = weak_from_this()](const boost::system::error_code& ec) {
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
  const std::lock_guard lock(mutex_);
  left_->swap(listeners_);
  stop();
  executor_ = {};
  return std::move(left_);
}

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lifetime/context_hook.hpp"
#include "platform/folder_watch.hpp"
#include "runtime/run_directory.hpp"

namespace holdfast::runtime {

/// Tells listeners of sessions whose makers are gone. There is one for each run directory and execution context, while
/// somebody refers to it.
///
/// The kernel tells when a file in the run directory is closed or removed. All execution contexts of the process share
/// one inotify instance for a directory, because a user may have only 128 of them by default. While somebody listens,
/// the watch looks at the directory every second if the kernel cannot tell. Examples: no instance is to be had, or the
/// directory has been removed. It also looks again after a second if it could not look at all files.
///
/// The functions are thread-safe.
class maker_watch final : public std::enable_shared_from_this<maker_watch>, lifetime::context_hook {
public:
  enum class news {
    gone,          ///< the session's maker is gone; maybe told more than once
    file_removed,  ///< the file of such a session has been removed
  };
  /// Called on the executor of the watch.
  using listener = std::function<void(const std::string& session, news)>;

  /// The watch of this directory in the context of `executor`.
  static std::shared_ptr<maker_watch> of(run_directory& directory, const boost::asio::any_io_executor& executor);
  maker_watch(run_directory& directory, const boost::asio::any_io_executor& executor);
  ~maker_watch();
  using context_hook::process;

  /// Adds a listener, which `who` identifies. It hears of the makers of sessions for this lock: of those that are gone
  /// now, and of each later one.
  void add(const void* who, std::string lock_key, listener heard);
  /// The listener hears nothing more, apart from news that is being told at this time.
  void remove(const void* who);

  /// The number of inotify instances that the watches of this process use.
  static std::size_t instances();

private:
  class hub;

  struct listening {
    std::string lock_key;
    listener heard;
  };

  bool has_context();
  void start();
  void stop();
  void wait_for_kernel();
  void look_at_all();
  void heard_of(const std::string& session, std::size_t attempt);
  void tell(const run_directory::dead& maker, news what);
  void file_removed(const std::string& session);
  std::shared_ptr<void> on_context_shutdown() noexcept override;

  run_directory& directory_;
  std::mutex mutex_;  ///< guards the following members
  boost::asio::any_io_executor executor_;
  using listeners = std::map<const void*, std::shared_ptr<const listening>>;
  listeners listeners_;
  std::shared_ptr<listeners> left_ = std::make_shared<listeners>();  ///< filled when the context is destroyed
  std::map<std::string, std::string> told_;  ///< the lock keys of sessions whose makers are known to be gone
  std::shared_ptr<hub> hub_;                 ///< null if no inotify instance could be set up, or nobody listens
  std::unique_ptr<platform::folder_watch::waiter> events_;
  std::optional<boost::asio::steady_timer> next_look_;  ///< at all files
};

}  // namespace holdfast::runtime

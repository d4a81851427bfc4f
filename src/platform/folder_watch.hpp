// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::platform {

/// The kernel's events about the files in a directory. The functions are thread-safe.
class folder_watch {
public:
  struct file_event {
    std::string name;
    bool is_removal;  ///< otherwise a file that was open for writing has been closed
  };
  struct events {
    std::vector<file_event> files{};
    /// The kernel has lost events, or another directory, or none, has the path now. In the latter case `watches` must
    /// be called again.
    bool is_incomplete = false;
  };
  /// Waits on one executor until `read` has something to read. Its destruction cancels the wait.
  class waiter {
  public:
    virtual ~waiter() = default;
    virtual void async_wait(std::function<void(const boost::system::error_code&)> readable) = 0;
  };

  /// Null if the kernel has no such events to give, for example because the user has too many watches.
  /// Portable version: always null.
  static std::shared_ptr<folder_watch> make(const std::string& path);
  virtual ~folder_watch() = default;

  /// Asks the kernel for the events of the directory that has the path now, if that has not been done. Returns false if
  /// that directory or the one above it cannot be watched, for example because it does not exist.
  virtual bool watches() = 0;
  /// Returns the events that have come so far. Does not block.
  virtual events read() = 0;
  /// Null if this process may wait for no more descriptors.
  virtual std::unique_ptr<waiter> make_waiter(const boost::asio::any_io_executor& executor) = 0;
};

/// Creates the services of Asio that a `waiter` uses in the context of this executor.
void make_waiter_services(const boost::asio::any_io_executor& executor);

}  // namespace holdfast::platform

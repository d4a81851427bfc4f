// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <holdfast/detail/export.hpp>
#include <memory>
#include <utility>

#include "lifetime/process_mark.hpp"

namespace holdfast::lifetime {

/// Base class of objects that are called when their execution context is destroyed, while its services still exist. The
/// object must then release its sockets, timers and strands, because these must not outlive the context.
///
/// Handles may outlive the context. One thread may destroy the last handle while another one destroys the context: the
/// later of the two waits for the other.
///
/// In a child of fork() nothing is called, because the threads that may hold locks do not exist there.
class HOLDFAST_INTERNAL context_hook {
public:
  context_hook(const context_hook&) = delete;
  context_hook& operator=(const context_hook&) = delete;

  /// The process in which the first hook of the context was made. In a child of it, the hooked object must do nothing.
  const process_mark& process() const noexcept { return process_; }

protected:
  explicit context_hook(const boost::asio::any_io_executor& executor);
  ~context_hook();
  /// Calls `on_context_shutdown` unless that was called before. Afterwards, no such call is running on another thread,
  /// and none will be made. In a child of fork() this does nothing. The destructor of the hooked object must call this
  /// first, and its class must be final.
  void unhook() noexcept;

private:
  struct list;
  class service;
  static std::shared_ptr<list> list_of(const boost::asio::any_io_executor& executor);
  /// Releases everything that belongs to the context. Returns the objects that others have left here, such as handlers.
  /// They are destroyed when no lock is held, because their destructors may wait for anything.
  virtual std::shared_ptr<void> on_context_shutdown() noexcept = 0;

  const std::shared_ptr<list> list_;
  const process_mark process_;
  bool is_linked_ = false;
  context_hook* next_ = nullptr;
  context_hook* previous_ = nullptr;
};

/// Makes a hooked object. In a child of fork(), the last owner does not destroy it: the destructor would wait for locks
/// of the parent's other threads, and cancel timers and reads that the two processes share.
template <class Hooked, class... Arguments>
std::shared_ptr<Hooked> make_hooked(Arguments&&... arguments) {
  const auto destroy = [](Hooked* hooked) {
    if (!hooked->process().is_foreign()) delete hooked;
  };
  return std::shared_ptr<Hooked>(new Hooked(std::forward<Arguments>(arguments)...), destroy);
}

}  // namespace holdfast::lifetime

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <utility>

#include "process_mark.hpp"

namespace holdfast::consul::detail {

/// Tells an object that the execution context under it is going away, while the context's services still exist: the
/// last chance to let go of sockets, timers and strands, which are not allowed to outlive it. Handles may. And their
/// last one may go on one thread while another destroys the context: who comes second waits.
///
/// In a child of fork() nothing is called, because the other threads that may hold locks do not exist there.
class context_hook {
public:
  context_hook(const context_hook&) = delete;
  context_hook& operator=(const context_hook&) = delete;

  /// The process in which the first hook of the context was made. In a child of it, what is hooked must do nothing.
  const process_mark& process() const noexcept { return process_; }

protected:
  explicit context_hook(const boost::asio::any_io_executor& executor);
  ~context_hook();
  /// The first thing in the destructor of what is hooked, which must be its final class: as if the context went now,
  /// unless it has. From then on it is not called, nor being called.
  void unhook() noexcept;

private:
  struct list;
  class service;
  /// Lets go of all that belongs to the context. Returns what others have left here, as handlers: that is destroyed
  /// when no lock is held any more, for nobody knows what it waits for.
  virtual std::shared_ptr<void> on_context_shutdown() noexcept = 0;

  const std::shared_ptr<list> list_;
  const process_mark process_;
  bool is_linked_ = false;
  context_hook* next_ = nullptr;
  context_hook* previous_ = nullptr;
};

/// Makes what is hooked. In a child of fork() its last owner leaves it where it is: its destructor would wait for locks
/// of the parent's other threads, and cancel timers and reads in what the two processes share.
template <class Hooked, class... Arguments>
std::shared_ptr<Hooked> make_hooked(Arguments&&... arguments) {
  const auto destroy = [](Hooked* hooked) {
    if (!hooked->process().is_foreign()) delete hooked;
  };
  return std::shared_ptr<Hooked>(new Hooked(std::forward<Arguments>(arguments)...), destroy);
}

}  // namespace holdfast::consul::detail

#pragma once

#include <boost/asio/execution_context.hpp>
#include <memory>

namespace holdfast::consul::detail {

/// Tells an object that the execution context under it is going away, while the context's services still exist: the
/// last chance to let go of sockets, timers and strands, which are not allowed to outlive it. Handles may. And their
/// last one may go on one thread while another destroys the context: who comes second waits.
class context_hook {
public:
  context_hook(const context_hook&) = delete;
  context_hook& operator=(const context_hook&) = delete;

protected:
  explicit context_hook(boost::asio::execution_context& context);
  ~context_hook();
  /// The first thing in the destructor of what is hooked: from then on it is not called, nor being called.
  void unhook() noexcept;

private:
  struct list;
  class service;
  virtual void on_context_shutdown() noexcept = 0;

  const std::shared_ptr<list> list_;
  bool is_linked_ = false;
  context_hook* next_ = nullptr;
  context_hook* previous_ = nullptr;
};

}  // namespace holdfast::consul::detail

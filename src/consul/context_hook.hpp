#pragma once

#include <boost/asio/execution_context.hpp>

namespace holdfast::consul::detail {

class hook_service;

/// Tells an object that the execution context under it is going away, while the context's services still exist: the
/// last chance to let go of sockets, timers and strands, which are not allowed to outlive it. Handles may.
class context_hook {
public:
  context_hook(const context_hook&) = delete;
  context_hook& operator=(const context_hook&) = delete;

protected:
  explicit context_hook(boost::asio::execution_context& context);
  ~context_hook();

private:
  friend class hook_service;
  virtual void on_context_shutdown() noexcept = 0;

  hook_service* service_;  // null after shutdown
  context_hook* next_ = nullptr;
  context_hook* previous_ = nullptr;
};

}  // namespace holdfast::consul::detail

#include "context_hook.hpp"

#include <mutex>

namespace holdfast::consul::detail {

class hook_service final : public boost::asio::execution_context::service {
public:
  using key_type = hook_service;
  static inline boost::asio::execution_context::id id;

  explicit hook_service(boost::asio::execution_context& context) : service(context) {}

  void add(context_hook& hook) {
    const std::lock_guard lock(mutex_);
    hook.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &hook;
    first_ = &hook;
  }

  void remove(context_hook& hook) {
    const std::lock_guard lock(mutex_);
    unlink(hook);
  }

private:
  void unlink(context_hook& hook) noexcept {
    if (first_ == &hook) first_ = hook.next_;
    if (hook.next_ != nullptr) hook.next_->previous_ = hook.previous_;
    if (hook.previous_ != nullptr) hook.previous_->next_ = hook.next_;
    hook.next_ = hook.previous_ = nullptr;
  }

  // One at a time and without the lock: what one hook lets go of may destroy another.
  void shutdown() override {
    while (context_hook* const hook = pop()) hook->on_context_shutdown();
  }

  context_hook* pop() noexcept {
    const std::lock_guard lock(mutex_);
    context_hook* const hook = first_;
    if (hook != nullptr) {
      unlink(*hook);
      hook->service_ = nullptr;
    }
    return hook;
  }

  std::mutex mutex_;
  context_hook* first_ = nullptr;
};

context_hook::context_hook(boost::asio::execution_context& context)
    : service_(&boost::asio::use_service<hook_service>(context)) {
  service_->add(*this);
}

context_hook::~context_hook() {
  if (service_ != nullptr) service_->remove(*this);
}

}  // namespace holdfast::consul::detail

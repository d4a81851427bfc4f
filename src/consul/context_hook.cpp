#include "context_hook.hpp"

#include <mutex>

namespace holdfast::consul::detail {

/// Outlives the context for as long as any of its hooks does. The lock is held while a hook is called: so none is
/// destroyed by another thread meanwhile. What it lets go of may destroy it, or others: so the same thread may take the
/// lock again.
struct context_hook::list {
  std::recursive_mutex mutex;
  context_hook* first = nullptr;

  void unlink(context_hook& hook) noexcept {
    if (first == &hook) first = hook.next_;
    if (hook.next_ != nullptr) hook.next_->previous_ = hook.previous_;
    if (hook.previous_ != nullptr) hook.previous_->next_ = hook.next_;
    hook.next_ = hook.previous_ = nullptr;
    hook.is_linked_ = false;
  }
};

class context_hook::service final : public boost::asio::execution_context::service {
public:
  using key_type = service;
  static inline boost::asio::execution_context::id id;

  explicit service(boost::asio::execution_context& context) : boost::asio::execution_context::service(context) {}

  const std::shared_ptr<list> hooks = std::make_shared<list>();

private:
  void shutdown() override {
    const std::lock_guard lock(hooks->mutex);
    while (context_hook* const hook = hooks->first) {
      hooks->unlink(*hook);
      hook->on_context_shutdown();
    }
  }
};

context_hook::context_hook(boost::asio::execution_context& context)
    : list_(boost::asio::use_service<service>(context).hooks) {
  const std::lock_guard lock(list_->mutex);
  next_ = list_->first;
  if (next_ != nullptr) next_->previous_ = this;
  list_->first = this;
  is_linked_ = true;
}

context_hook::~context_hook() { unhook(); }

void context_hook::unhook() noexcept {
  const std::lock_guard lock(list_->mutex);
  if (is_linked_) list_->unlink(*this);
}

}  // namespace holdfast::consul::detail

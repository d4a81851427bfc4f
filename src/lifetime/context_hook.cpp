// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/context_hook.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <mutex>

#include "platform/folder_watch.hpp"

namespace holdfast::lifetime {

namespace {

/// A context shuts its services down in the reverse order of their creation. A hook needs the services of the objects
/// that it releases. So this creates those services before the service of the hooks.
void make_services(const boost::asio::any_io_executor& executor) {
  const auto strand = boost::asio::make_strand(executor);
  const boost::asio::steady_timer timer(executor);
  const boost::asio::ip::tcp::socket socket(executor);
  const boost::asio::generic::stream_protocol::socket generic_socket(executor);
  const boost::asio::ip::tcp::acceptor acceptor(executor);
  platform::make_waiter_services(executor);
}

}  // namespace

/// The hooks of one context. The list lives as long as the context or any of its hooks. The mutex is held while a hook
/// is called, so that no other thread destroys a hook meanwhile. It is recursive, because an object that a hook
/// releases may destroy that hook or another one.
struct context_hook::list {
  const process_mark process;
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
    if (hooks->process.is_foreign()) return;
    std::unique_lock lock(hooks->mutex);
    while (context_hook* const hook = hooks->first) {
      hooks->unlink(*hook);
      std::shared_ptr<void> left = hook->on_context_shutdown();
      lock.unlock();
      left.reset();
      lock.lock();
    }
  }
};

/// Once the service of the hooks exists, the others do, too. Then nothing more is made: Asio's strands and timers need
/// memory, and an allocation that fails in the constructor of a strand ends the program.
std::shared_ptr<context_hook::list> context_hook::list_of(const boost::asio::any_io_executor& executor) {
  boost::asio::execution_context& context = boost::asio::query(executor, boost::asio::execution::context);
  if (!boost::asio::has_service<service>(context)) make_services(executor);
  return boost::asio::use_service<service>(context).hooks;
}

context_hook::context_hook(const boost::asio::any_io_executor& executor)
    : list_(list_of(executor)), process_(list_->process) {
  if (process_.is_foreign()) return;
  const std::lock_guard lock(list_->mutex);
  next_ = list_->first;
  if (next_ != nullptr) next_->previous_ = this;
  list_->first = this;
  is_linked_ = true;
}

/// The hook is still linked if the constructor of the hooked object has thrown.
context_hook::~context_hook() {
  if (process_.is_foreign()) return;
  const std::lock_guard lock(list_->mutex);
  if (is_linked_) list_->unlink(*this);
}

void context_hook::unhook() noexcept {
  std::shared_ptr<void> left;
  if (process_.is_foreign()) return;
  const std::lock_guard lock(list_->mutex);
  if (!is_linked_) return;
  list_->unlink(*this);
  left = on_context_shutdown();
}

}  // namespace holdfast::lifetime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/post.hpp>
#include <tuple>

#include "client_impl.hpp"
#include "reply.hpp"

namespace holdfast::consul {
namespace detail {
namespace {

// An operation with its results and the user's handler. `Decode` is called as decode(reply, results...).
template <class Decode, class... Results>
class typed_operation final : public operation {
public:
  typed_operation(std::shared_ptr<client_impl> owner, call what, Decode decode, handler_of<Results...> handler)
      : operation(std::move(owner), std::move(what)),
        decode_(std::move(decode)),
        home_(asio::get_associated_executor(handler, this->owner().executor())),
        handler_(std::move(handler)) {
    lives_on_strand_ = home_ == this->owner().home();
    // A handler on the strand needs no work of its own: the coroutine counts as work for the strand.
    if (!lives_on_strand_) home_ = asio::prefer(home_, asio::execution::outstanding_work.tracked);
  }

  error_code decode(const http_reply& reply) override {
    return std::apply([&](Results&... results) { return decode_(reply, results...); }, results_);
  }

  // A handler that does not live on the strand is posted to the client's plain executor, which dispatches it to the
  // handler's own executor. So such a handler never runs inside the strand. A handler on the strand is posted in the
  // same way while the initiating function still runs. A type-erased handler cannot be posted to its own executor
  // directly (Boost 1.81).
  void complete(outcome ended) override {
    if (ended.code()) results_ = {};
    std::apply(
        [&](Results&... results) {
          if (lives_on_strand_ && has_left()) {
            std::move(handler_)(std::move(ended), std::move(results)...);
          } else {
            asio::post(owner().executor(), asio::append(std::move(handler_), std::move(ended), std::move(results)...));
          }
        },
        results_);
  }

private:
  Decode decode_;
  std::tuple<Results...> results_;
  asio::any_completion_executor home_;
  bool lives_on_strand_ = false;
  handler_of<Results...> handler_;
};

template <class Decode, class... Results>
void launch(const std::shared_ptr<client_impl>& impl, call what, Decode decode, handler_of<Results...> handler) {
  if (!impl->executor()) return;  // the context has been destroyed: no handler can run
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler);
  const auto op = std::make_shared<typed_operation<Decode, Results...>>(impl, std::move(what), std::move(decode),
                                                                        std::move(handler));
  if (slot.is_connected()) {
    // The signal may be emitted on any thread, but the operation lives on the strand.
    slot.assign([weak = std::weak_ptr<operation>(op)](asio::cancellation_type) {
      if (auto found = weak.lock()) found->owner().request_cancel(std::move(found));
    });
  }
  impl->start(op);
}

}  // namespace

void start(const std::shared_ptr<client_impl>& impl, get_request request, handler_of<entry_answer> handler) {
  launch(impl, make_call(impl->calls(), request), decode_get, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, list_request request, handler_of<entries_answer> handler) {
  launch(impl, make_call(impl->calls(), request), decode_list, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, keys_request request, handler_of<keys_answer> handler) {
  launch(impl, make_call(impl->calls(), request), decode_keys, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, write_request request, handler_of<bool> handler) {
  launch(impl, make_call(impl->calls(), request), decode_write, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, session_create_request request, handler_of<std::string> handler) {
  launch(impl, make_call(impl->calls(), request), decode_session_create, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, session_renew_request request, handler_of<> handler) {
  launch(impl, make_call(impl->calls(), request), decode_session_renew, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, session_destroy_request request, handler_of<> handler) {
  launch(impl, make_call(impl->calls(), request), decode_confirmation, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, node_read_request request, handler_of<node_answer> handler) {
  launch(impl, make_call(impl->calls(), request), decode_node, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, session_info_request request, handler_of<session_answer> handler) {
  launch(impl, make_call(impl->calls(), request), decode_session, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, node_register_request request, handler_of<> handler) {
  launch(impl, make_call(impl->calls(), request), decode_confirmation, std::move(handler));
}

void start(const std::shared_ptr<client_impl>& impl, txn_request request, handler_of<txn_reply> handler) {
  // A plain pointer is enough, because the operation owns the client while it decodes.
  const auto decode = [operations = request.operations.size(), client = impl.get()](const http_reply& reply,
                                                                                    txn_reply& out) {
    if (const auto most = operations_taken(reply)) client->learn_operations_max(*most);
    return decode_txn(reply, operations, out);
  };
  launch(impl, make_call(impl->calls(), request, impl->operations_max()), decode, std::move(handler));
}

asio::any_io_executor executor_of(const client_impl& impl) noexcept { return impl.executor(); }

}  // namespace detail

client::client(asio::any_io_executor executor, config settings)
    : impl_(detail::client_impl::make(std::move(executor), std::move(settings))) {}

client::executor_type client::get_executor() const noexcept { return impl_->executor(); }

asio::any_io_executor client::strand() const noexcept { return impl_->strand(); }

const std::string& client::address() const noexcept { return impl_->address(); }

client_statistics client::statistics() const noexcept { return impl_->statistics(); }

client_health client::health() const { return impl_->health(); }

void client::close() noexcept { impl_->close(); }

}  // namespace holdfast::consul

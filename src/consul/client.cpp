// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <tuple>

#include "consul/client_impl.hpp"
#include "consul/encoding/reply.hpp"
#include "lifetime/completion.hpp"

namespace holdfast::consul {
namespace detail {
namespace {

using holdfast::detail::posting_executor;

// The result of a request that was perhaps sent. Its outcome is unknown.
outcome out_of_memory() {
  diagnostics why;
  why.message = "there was not enough memory for the request or its answer";
  return {error::connection_lost, std::move(why)};
}

// An operation with its results and the user's handler. `Decode` is called as decode(reply, results...).
template <class Decode, class... Results>
class typed_operation final : public operation {
public:
  typed_operation(std::shared_ptr<client_impl> owner, call what, Decode decode, handler_of<Results...>&& waiting)
      : operation(std::move(owner), std::move(what)), decode_(std::move(decode)), waiting_(std::move(waiting)) {}
  ~typed_operation() override {
    if (waiting_ && has_left()) complete_lost();
  }

  std::optional<error_code> decode(const http_reply& reply) override {
    return std::apply([&](Results&... results) { return decode_(reply, results...); }, results_);
  }

  // A handler that does not live on the strand never runs inside the strand. A handler on the strand is posted while
  // the initiating function still runs.
  void complete(outcome ended) override {
    if (ended.code()) results_ = {};
    std::apply([&](Results&... results) { waiting_->set_result(std::move(ended), std::move(results)...); }, results_);
    const bool on_strand = waiting_->is_on_strand;
    if (on_strand && has_left()) return holdfast::detail::call_handler(waiting_.take());
    const posting_executor home(on_strand ? strand_of(owner()) : executor_of(owner()));
    home.post(waiting_.take());
  }

private:
  // Asio has destroyed the coroutine, because it had no memory to resume it.
  void complete_lost() noexcept {
    if (owner().process().is_foreign() || !executor_of(owner())) return;  // no handler can run
    try {
      std::apply([&](auto... none) { waiting_->set_result(out_of_memory(), std::move(none)...); },
                 std::tuple<Results...>());
      const posting_executor home(waiting_->is_on_strand ? strand_of(owner()) : executor_of(owner()));
      home.post(waiting_.take());
      // NOLINTNEXTLINE(bugprone-empty-catch): there is no memory for this, either
    } catch (...) {
    }
  }

  Decode decode_;
  std::tuple<Results...> results_;
  handler_of<Results...> waiting_;
};

template <class Decode, class... Results>
void launch(const std::shared_ptr<client_impl>& impl, call what, Decode decode, handler_of<Results...>&& waiting) {
  if (!impl->executor()) return;  // the context has been destroyed: no handler can run
  asio::cancellation_slot slot = waiting->cancellation_slot();
  const auto op = std::make_shared<typed_operation<Decode, Results...>>(impl, std::move(what), std::move(decode),
                                                                        std::move(waiting));
  if (slot.is_connected()) {
    // The signal may be emitted on any thread, but the operation lives on the strand.
    slot.assign([weak = std::weak_ptr<operation>(op)](asio::cancellation_type) {
      if (auto found = weak.lock()) found->owner().request_cancel(std::move(found));
    });
  }
  impl->start(op);
}

}  // namespace

void start(const std::shared_ptr<client_impl>& impl, get_request request, handler_of<entry_answer>&& waiting) {
  auto decode = [from = entries_reader(), list = std::vector<kv_entry>()](
                    const http_reply& reply, entry_answer& out) mutable { return decode_get(from, list, reply, out); };
  launch(impl, make_call(impl->calls(), request), std::move(decode), std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, list_request request, handler_of<entries_answer>&& waiting) {
  auto decode = [from = entries_reader()](const http_reply& reply, entries_answer& out) mutable {
    return decode_list(from, reply, out);
  };
  launch(impl, make_call(impl->calls(), request), std::move(decode), std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, keys_request request, handler_of<keys_answer>&& waiting) {
  auto decode = [from = entries_reader()](const http_reply& reply, keys_answer& out) mutable {
    return decode_keys(from, reply, out);
  };
  launch(impl, make_call(impl->calls(), request), std::move(decode), std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, write_request request, handler_of<bool>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_write, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, session_create_request request,
           handler_of<std::string>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_session_create, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, session_renew_request request, handler_of<>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_session_renew, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, session_destroy_request request, handler_of<>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_confirmation, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, node_read_request request, handler_of<node_answer>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_node, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, session_info_request request,
           handler_of<session_answer>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_session, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, node_register_request request, handler_of<>&& waiting) {
  launch(impl, make_call(impl->calls(), request), decode_confirmation, std::move(waiting));
}

void start(const std::shared_ptr<client_impl>& impl, txn_request request, handler_of<txn_reply>&& waiting) {
  auto decode = [from = entries_reader(), operations = request.operations.size()](const http_reply& reply,
                                                                                  txn_reply& out) mutable {
    return decode_txn(from, reply, operations, out);
  };
  launch(impl, make_call(impl->calls(), request, impl->operations_max()), std::move(decode), std::move(waiting));
}

const asio::any_io_executor& executor_of(const client_impl& impl) noexcept { return impl.executor(); }

const asio::any_io_executor& strand_of(const client_impl& impl) noexcept { return impl.strand(); }

}  // namespace detail

client::client(asio::any_io_executor executor, config settings)
    : impl_(detail::client_impl::make(std::move(executor), std::move(settings))) {}

client::executor_type client::get_executor() const noexcept { return impl_ ? impl_->executor() : executor_type(); }

asio::any_io_executor client::strand() const noexcept { return impl_ ? impl_->strand() : asio::any_io_executor(); }

const std::string& client::address() const noexcept {
  static const std::string none;
  return impl_ ? impl_->address() : none;
}

client_statistics client::statistics() const noexcept { return impl_ ? impl_->statistics() : client_statistics(); }

client_health client::health() const { return impl_ ? impl_->health() : client_health(); }

void client::close() noexcept {
  if (impl_) impl_->close();
}

}  // namespace holdfast::consul

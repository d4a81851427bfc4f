// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/intrusive/list.hpp>
#include <holdfast/consul/client.hpp>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "consul/call.hpp"
#include "consul/connections/counters.hpp"
#include "consul/health_record.hpp"
#include "consul/transport.hpp"
#include "lifetime/context_hook.hpp"

namespace holdfast::consul::detail {

class client_impl;
using holdfast::detail::outcome;

/// One operation, from its start until its handler is posted or called. The completion handler of its coroutine owns
/// it. The user's cancellation slot holds a weak reference, so a late signal has no effect.
class operation : public boost::intrusive::list_base_hook<> {
public:
  operation(std::shared_ptr<client_impl> owner, call what) : owner_(std::move(owner)), call_(std::move(what)) {}
  virtual ~operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  const call& what() const noexcept { return call_; }
  client_impl& owner() const noexcept { return *owner_; }

  /// Decodes the next part of the reply, and keeps the value for `complete`. Returns the error that the reply stands
  /// for, if any, or nullopt if there is more to decode.
  virtual std::optional<error_code> decode(const http_reply& reply) = 0;
  /// Posts the handler. If the handler lives on the strand, and the initiating function has returned, calls it instead.
  /// To be called once.
  virtual void complete(outcome ended) = 0;

  /// Cancels the operation. It fails with `reason` unless a reply without an error has already arrived. An operation
  /// that is not begun, because its arguments are refused or the client is closed, fails for that reason instead. After
  /// the first call, further calls have no effect. To be called on the strand.
  void cancel(const error_code& reason);
  const error_code& cancelled() const noexcept { return cancelled_; }
  asio::cancellation_slot slot() noexcept { return signal_.slot(); }

  std::shared_ptr<trace_span> span{};  ///< null if nobody traces it

  /// To be called when the initiating function is about to return.
  void leave() noexcept { has_left_.store(true, std::memory_order_relaxed); }
  bool has_left() const noexcept { return has_left_.load(std::memory_order_relaxed); }

private:
  std::shared_ptr<client_impl> owner_;
  call call_;
  asio::cancellation_signal signal_;
  error_code cancelled_;
  std::atomic<bool> has_left_{false};  // set by the starting thread, read on the strand
};

class client_impl final : public std::enable_shared_from_this<client_impl>, private lifetime::context_hook {
public:
  client_impl(asio::any_io_executor executor, config settings);
  static std::shared_ptr<client_impl> make(asio::any_io_executor executor, config settings);
  ~client_impl() { unhook(); }
  using context_hook::process;

  /// Starts the operation. In a child of fork() the operation is dropped, because its bytes would go into the parent's
  /// connections.
  void start(const std::shared_ptr<operation>& op);
  /// Posts the cancellation of the operation to the strand. May be called from any thread.
  void request_cancel(std::shared_ptr<operation> op);
  void close();

  const asio::any_io_executor& executor() const noexcept { return executor_; }
  /// The strand. Empty once the execution context has been destroyed.
  const asio::any_io_executor& strand() const noexcept { return erased_strand_; }
  const std::string& address() const noexcept { return address_text_; }
  const call_settings& calls() const noexcept { return calls_; }
  /// The largest number of operations in a transaction that is sent: `txn_operations_max`, or less once Consul has
  /// named a lower limit in a refusal. May be called from any thread.
  std::size_t operations_max() const noexcept { return operations_max_.load(std::memory_order_relaxed); }
  client_statistics statistics() const noexcept;
  client_health health() const { return health_.read(); }

private:
  std::shared_ptr<void> on_context_shutdown() noexcept override;

  awaitable<void> perform(operation& op);
  bool needs_another_token(attempt_result& ended);
  void learn_from(const http_reply& refusal) noexcept;
  void count(const call& what, const error_code& result, clock::duration took);
  awaitable<attempt_result> attempt(operation& op, time_point deadline);
  static std::optional<error_code> decode_part(operation& op, const http_reply& reply);
  awaitable<error_code> decode_rest(operation& op, const http_reply& reply);
  outcome outcome_with_diagnostics(const call& what, const attempt_result& ended) const;
  diagnostics diagnostics_about(const call& what, const attempt_result& ended) const;

  asio::any_io_executor executor_;
  const config settings_;
  const std::vector<agent_address> addresses_;
  const std::string address_text_;
  const call_settings calls_;
  std::atomic<std::size_t> operations_max_{txn_operations_max};
  const std::shared_ptr<counters> counters_ = std::make_shared<counters>();
  health_record health_;
  // The strand, its erased form, the transport and `executor_` refer to the execution context, and may outlive it. So
  // `on_context_shutdown` clears or closes them. The transport refers to the strand.
  std::optional<strand_type> strand_;
  asio::any_io_executor erased_strand_;
  const std::shared_ptr<lifetime::event_log> log_;  // null if nobody wants to read it
  transport transport_;
  boost::intrusive::list<operation> running_;
  std::minstd_rand random_;
  bool closed_ = false;
};

}  // namespace holdfast::consul::detail

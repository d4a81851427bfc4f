// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <concepts>
#include <holdfast/broker_statistics.hpp>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/rabbitmq/config.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

class prometheus_text;

}  // namespace holdfast

namespace holdfast::rabbitmq {

namespace asio = boost::asio;

class client;

namespace detail {

class client_impl;

HOLDFAST_EXPORT const std::shared_ptr<client_impl>& impl_of(const client&) noexcept;

}  // namespace detail

/// A handle to the connections of this process to one RabbitMQ broker. Semaphores use it; it has no operations of its
/// own.
///
/// A client has one connection for probes and hints, and one for each slot that its semaphores hold or ask for. A
/// connection that nobody uses is kept for `tuning::session_idle_timeout` (10 s). An open connection keeps the
/// execution context running.
///
/// Threads: all members may be called from any thread at any time. Assignment, move and destruction must not run at the
/// same time as another call on the same object.
///
/// Lifetimes: the handle is cheap to copy, and copies share the connections. A semaphore keeps the client alive. The
/// client may outlive its execution context; then it does nothing.
///
/// fork(): as for `holdfast::slot`. A child makes a new client.
class HOLDFAST_EXPORT client {
public:
  using executor_type = asio::any_io_executor;

  /// Sends nothing. Completion handlers without an executor of their own run on `executor`. Throws `system_error` if a
  /// field of `settings` breaks its rule, or names a file that cannot be used: invalid_address, unsupported_scheme,
  /// invalid_option.
  client(const executor_type& executor, config settings);
  template <class Context>
    requires std::convertible_to<Context&, asio::execution_context&>
  client(Context& context, config settings) : client(executor_type(context.get_executor()), std::move(settings)) {}

  /// Empty once the execution context has been destroyed.
  executor_type get_executor() const noexcept;
  /// The name of the broker in the texts of errors, with the first address and without a password: "RabbitMQ at
  /// amqp://localhost:5672".
  const std::string& name() const noexcept;
  broker_statistics statistics() const;

  /// Closes all connections, and opens no more. Returns at once; the work is done on the client's strand. The
  /// semaphores of this client are closed, too: acquires fail with error::closed, and held slots are lost. The broker
  /// then has no queue of their holders any more. Other processes of this library still wait for one lease before they
  /// use these slots. So release the slots and close the semaphores first.
  void close() const;

private:
  friend const std::shared_ptr<detail::client_impl>& detail::impl_of(const client&) noexcept;

  std::shared_ptr<detail::client_impl> impl_;
};

/// Adds the client's statistics to the metrics. `name` becomes the label `client`. The metrics keep no client alive.
HOLDFAST_EXPORT void add_to(prometheus_text& metrics, const client& broker, std::string name);

}  // namespace holdfast::rabbitmq

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

namespace asio = boost::asio;

namespace detail {
class broker_impl;
class context_thread;
}  // namespace detail

struct broker_options {
  std::string host = "127.0.0.1";      ///< an IP literal of a loopback address, or else error::invalid_option
  std::uint16_t port = 0;              ///< 0: any free port
  std::chrono::seconds heartbeat{60};  ///< the one that is offered to clients; they decide
  std::string virtual_host = "/";
};

/// A fault that happens to one method of a client. Use the named functions below to make one, such as
/// `broker_fault::drop_reply()`.
struct broker_fault {
  // No check finds a kind without a test: unit.rabbitmq_testing_broker lists the kinds by hand.
  enum class kind {
    none,
    delay,             ///< the method, and everything behind it on its connection, is carried out `time` later
    drop_request,      ///< the method is not carried out; its connection is reset
    drop_reply,        ///< the method is carried out; its connection is closed without the reply
    cut_reply,         ///< the method is carried out; its connection is closed after half of the reply's bytes
    close_channel,     ///< the method is not carried out; the channel is closed with `code` and `text`
    close_connection,  ///< the method is not carried out; the connection is closed with `code` and `text`
    freeze,            ///< the connection stands still until `thaw`; then the method is carried out
    late,              ///< the message arrives `time` later, even if its connection has ended by then, and without a
                       ///< confirm; what is behind it goes on. Methods other than basic.publish are delayed instead
  };

  kind what = kind::none;
  std::chrono::milliseconds time{0};
  std::uint16_t code = 0;
  std::string text{};
  bool operator==(const broker_fault&) const = default;

  static broker_fault delay(std::chrono::milliseconds time) { return {kind::delay, time, 0, {}}; }
  static broker_fault drop_request() { return {kind::drop_request, {}, 0, {}}; }
  static broker_fault drop_reply() { return {kind::drop_reply, {}, 0, {}}; }
  static broker_fault cut_reply() { return {kind::cut_reply, {}, 0, {}}; }
  static broker_fault close_channel(std::uint16_t code, std::string text) {
    return {kind::close_channel, {}, code, std::move(text)};
  }
  static broker_fault close_connection(std::uint16_t code, std::string text) {
    return {kind::close_connection, {}, code, std::move(text)};
  }
  static broker_fault freeze() { return {kind::freeze, {}, 0, {}}; }
  static broker_fault late(std::chrono::milliseconds time) { return {kind::late, time, 0, {}}; }
};

/// Selects the methods to which a fault happens. The first rule that selects a method decides, unless it still skips or
/// has reached `times`.
struct broker_fault_rule {
  broker_fault what;
  std::string method{};   ///< as in the specification: "queue.declare". Empty: any
  std::string queue{};    ///< a part of the queue's name, which for a message is its routing key. Empty: any
  std::size_t skip = 0;   ///< the number of selected methods that pass first
  std::size_t times = 1;  ///< the number of methods to which the fault happens; 0: no limit
};

/// Counters since construction, except `connections`, which is a current number.
struct broker_statistics {
  std::uint64_t accepted = 0;   ///< connections
  std::uint64_t requests = 0;   ///< methods that clients have sent after connection.open
  std::uint64_t faults = 0;     ///< methods that got a fault
  std::size_t connections = 0;  ///< including those that do not speak AMQP
};

/// A queue of the broker.
struct queue_status {
  std::string name{};
  bool is_exclusive = false;
  std::string owner{};  ///< the name of the connection to which it is exclusive
  std::size_t ready = 0;
  std::size_t unacknowledged = 0;
  std::size_t consumers = 0;
  bool operator==(const queue_status&) const = default;
};

/// The rights of a user, as regular expressions for names of queues, and "amq.default" for the exchange.
struct user_rights {
  std::string configure = ".*";
  std::string write = ".*";
  std::string read = ".*";
};

/// A fake RabbitMQ: a model of one broker that speaks AMQP 0-9-1 on a loopback port, for development and tests. It has
/// what a semaphore uses: exclusive and durable classic queues with a maximum length, messages that expire, consumers,
/// confirms, heartbeats, users, and alarms. It has one virtual host, no exchange but the default one, no TLS, no
/// persistence and no cluster. Where versions differ, it does what 3.10.8 does. It is not a RabbitMQ server.
///
/// `holdfast::testing::broker rabbitmq; holdfast::rabbitmq::client client(io, {.address = rabbitmq.url()});`
///
/// A connection has the name that its client gives it in `connection_name`, or else its client's address,
/// "127.0.0.1:port".
///
/// Thread safety: all functions may be called from any thread. Queues change at once. Clients are notified soon after,
/// on an internal strand.
///
/// The destructor closes the listener and all connections. If the object has a thread of its own, the destructor joins
/// that thread. If the object runs in the user's context, the connections are closed when the context runs next or is
/// destroyed. The context may be destroyed before or after the object.
class HOLDFAST_EXPORT broker {
public:
  /// Runs on a thread of its own. Throws `system_error` if it cannot listen, or if an option is not valid.
  explicit broker(broker_options options = {});
  /// Runs in the user's execution context, and answers while that runs.
  explicit broker(asio::any_io_executor executor, broker_options options = {});
  broker(const broker&) = delete;
  broker& operator=(const broker&) = delete;
  ~broker();

  std::string address() const;  ///< "127.0.0.1:port"
  std::string url() const;      ///< for the user "guest" with the password "guest"
  broker_statistics statistics() const;
  /// The number of methods with this name that clients have sent, such as "queue.declare". Methods before
  /// connection.open are counted, too.
  std::uint64_t requests(std::string_view method) const;
  std::vector<queue_status> queues() const;
  std::optional<queue_status> queue(std::string_view name) const;  ///< empty if it is missing

  // --- Faults of the network, and of a broker that is too slow.

  /// Replaces the rules. Methods that a fault of the old rules holds stay held.
  void set_faults(std::vector<broker_fault_rule> rules);
  /// Stops all answers and heartbeats. Connections are still accepted, as by the kernel for a stopped process. No
  /// connection times out meanwhile.
  void freeze();
  void thaw();
  /// Resets every connection. The broker notices it at once.
  void cut();

  // --- Restarts.

  enum class ending {
    kill,  ///< as `kill -9` ends a broker: its connections are reset
    stop,  ///< as `rabbitmqctl stop_app` ends it: each client is told why
  };
  /// Ends the broker. New connections are refused. Durable queues and their persistent messages stay. The port stays
  /// reserved. Throws `system_error` if it cannot be reserved.
  void stop(ending how = ending::kill);
  /// Listens again, on the same port. Throws `system_error` on failure.
  void start();

  // --- Operators.

  /// In an alarm, a connection is blocked as soon as it publishes: it is told so, and its message and all that it sends
  /// later is carried out after the alarm. A blocked connection is not read, so its end is noticed only when a
  /// heartbeat cannot be sent.
  void set_alarm(bool is_on);
  /// Closes all connections with this name, and tells them so. Returns their number.
  std::size_t close_connection(std::string_view name, std::string_view reason = "closed by an operator");
  /// The same, for the connection to which a queue is exclusive. Returns false if there is none.
  bool close_owner(std::string_view queue, std::string_view reason = "closed by an operator");
  /// Deletes a queue, also one that is exclusive to a connection. Returns false if it is missing.
  bool delete_queue(std::string_view name);
  /// Makes a user, or changes the password. A new user has no rights, and cannot connect.
  void set_user(const std::string& name, std::string password);
  void set_rights(const std::string& name, user_rights rights);
  /// Closes the user's connections, too.
  void delete_user(const std::string& name);
  /// Refuses all logins from now on, as if the passwords were wrong.
  void refuse_logins(bool are_refused);

private:
  std::unique_ptr<detail::context_thread> thread_;
  const std::shared_ptr<detail::broker_impl> impl_;
};

}  // namespace holdfast::testing

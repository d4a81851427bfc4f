// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rabbitmq/method.hpp"

namespace holdfast::testing::detail {

namespace amqp = holdfast::rabbitmq::detail;

struct broker_message {
  std::string exchange{};
  std::string routing_key{};
  amqp::message_properties properties{};
  std::string body{};

  bool operator==(const broker_message&) const = default;
};

/// Regular expressions. They are searched in the name of a queue, or in "amq.default" for the exchange. An empty one
/// matches nothing.
struct broker_rights {
  std::string configure = ".*";
  std::string write = ".*";
  std::string read = ".*";

  bool operator==(const broker_rights&) const = default;
};

/// Returns the text of a refusal, which RabbitMQ begins with the name of its code and cuts to 255 bytes.
std::string refusal_text(std::uint16_t code, std::string_view text);

/// The state of a queue, as an operator sees it.
struct broker_queue {
  std::string name{};
  std::string owner{};  ///< the name of the connection to which the queue is exclusive
  bool is_exclusive = false;
  std::size_t ready = 0;
  std::size_t unacknowledged = 0;
  std::size_t consumers = 0;

  bool operator==(const broker_queue&) const = default;
};

/// A model of one RabbitMQ broker: connections, channels, queues, messages and users, as far as a semaphore uses them.
/// It has no I/O and reads no clock. The same calls lead to the same answers, and copies are independent.
///
/// The model begins after connection.open. Each method that a client sends goes to `receive`. The broker's methods are
/// collected in `take_answers`.
///
/// Where versions differ, the model is RabbitMQ 3.10.8. It has one virtual host, the default exchange, and classic
/// queues. It does not model persistence: a restart keeps durable queues and their persistent messages.
class broker_model {
public:
  using time_point = std::chrono::steady_clock::time_point;
  /// Counted from 1.
  using connection_id = std::uint64_t;

  struct answer {
    connection_id to = 0;
    std::uint16_t channel = 0;
    amqp::method what{};
    broker_message content{};  ///< if the method has content

    bool operator==(const answer&) const = default;
  };

  /// There is one user, "guest" with the password "guest", who has all rights.
  explicit broker_model(std::string virtual_host = "/");

  // --- Users.

  /// Makes the user, or changes the password. A new user has no rights, and may not connect.
  void set_user(const std::string& name, std::string password);
  void set_rights(const std::string& name, broker_rights rights);
  /// Closes the user's connections, too.
  void delete_user(const std::string& name, time_point now);
  bool is_password_right(const std::string& user, std::string_view password) const;
  /// Returns the reason why connection.open must be refused. An empty text means that there is none.
  std::string refusal_to_open(const std::string& user, std::string_view virtual_host) const;

  // --- Connections.

  connection_id connect(std::string user, std::string name);
  /// Methods of a connection that has ended are ignored, and those of one that an alarm blocks are kept until then.
  void receive(connection_id from, std::uint16_t channel, const amqp::method& what, const broker_message& content,
               time_point now);
  /// A message whose connection has ended since it was sent. It still arrives, without an answer.
  void receive_late(const broker_message& message, time_point now) { route(message, now); }
  /// The broker notices that the connection has ended: its exclusive queues are deleted, and its messages that were not
  /// acknowledged go back to their queues.
  void end(connection_id which, time_point now);
  /// The same, and connection.close is sent before. Does nothing if the connection has ended.
  void close(connection_id which, std::uint16_t code, std::string_view text, time_point now);
  /// Refuses the next method of the channel: it is closed with this code.
  void refuse_channel(connection_id which, std::uint16_t channel, std::uint16_t code, std::string_view text,
                      time_point now);
  bool is_open(connection_id which) const { return connections_.contains(which); }
  bool is_blocked(connection_id which) const;

  // --- Operators and accidents.

  /// Closes all connections with this name, as `rabbitmqctl close_connection` does. Returns their number.
  std::size_t force_close(std::string_view name, std::string_view reason, time_point now);
  /// Closes the connection to which the queue is exclusive. Returns false if there is none.
  bool force_close_owner(const std::string& queue, std::string_view reason, time_point now);
  /// Deletes any queue, also one that is exclusive to a connection. Returns false if it is missing.
  bool delete_queue(const std::string& name);
  /// In an alarm, a connection is blocked when it publishes. Its message and everything behind that is carried out when
  /// the alarm is over.
  void set_alarm(bool is_on, time_point now);
  /// Ends all connections, and keeps durable queues with their persistent messages only. If clients are warned, each
  /// receives connection.close first.
  void restart(bool clients_are_warned, time_point now);

  std::optional<broker_queue> queue(const std::string& name, time_point now);
  std::vector<broker_queue> queues(time_point now);

  std::vector<answer> take_answers() { return std::exchange(answers_, {}); }

  bool operator==(const broker_model&) const = default;

private:
  struct stored {
    std::uint64_t position = 0;  // in its queue, which it keeps when it is put back
    broker_message message{};
    time_point expires_at = time_point::max();
    bool is_redelivered = false;
    bool operator==(const stored&) const = default;
  };
  struct consumer {
    connection_id connection = 0;
    std::uint16_t channel = 0;
    std::string tag{};
    bool no_ack = false;
    bool is_exclusive = false;
    std::size_t prefetch = 0;  // 0: no limit
    std::size_t unacknowledged = 0;
    bool has_room() const noexcept { return no_ack || prefetch == 0 || unacknowledged < prefetch; }
    bool operator==(const consumer&) const = default;
  };
  struct queue_state {
    std::uint64_t id = 0;  // differs from that of an earlier queue with this name
    amqp::queue_declare declared{};
    connection_id owner = 0;  // 0: the queue is not exclusive
    std::uint64_t next_position = 0;
    std::deque<stored> ready{};
    std::deque<consumer> consumers{};  // the next delivery is for the first that has room
    std::size_t unacknowledged = 0;
    bool operator==(const queue_state&) const = default;
  };
  struct delivered {
    std::string queue{};
    std::uint64_t queue_id = 0;
    std::string consumer_tag{};  // empty for basic.get
    stored message{};
    bool operator==(const delivered&) const = default;
  };
  struct channel_state {
    bool is_closing = false;  // the broker has sent channel.close
    bool confirms = false;
    std::uint64_t published = 0;
    std::uint64_t last_tag = 0;
    std::uint16_t prefetch = 0;
    std::map<std::uint64_t, delivered> unacknowledged{};
    bool operator==(const channel_state&) const = default;
  };
  struct input {
    std::uint16_t channel = 0;
    amqp::method what{};
    broker_message content{};
    bool operator==(const input&) const = default;
  };
  struct connection_state {
    std::string user{};
    std::string name{};
    std::map<std::uint16_t, channel_state> channels{};
    bool is_blocked = false;
    std::deque<input> kept{};  // while it is blocked
    bool operator==(const connection_state&) const = default;
  };
  struct user_state {
    std::string password{};
    std::optional<broker_rights> rights{};
    bool operator==(const user_state&) const = default;
  };
  // One method that is being carried out.
  struct request {
    connection_id connection = 0;
    std::uint16_t channel = 0;
    time_point now{};
    const broker_message& content;
    std::uint32_t method_id = 0;  // the class in the upper half
  };
  enum class right { configure, write, read };

  void carry_out(connection_id from, const input& what, time_point now);
  /// Methods that a client does not send, or sends before connection.open.
  template <class Other>
  void on(const request& at, const Other&) {
    refuse_connection(at, 503, "the method is not expected");
  }
  void on(const request& at, const amqp::connection_close& what);
  void on(const request& at, const amqp::channel_open& what);
  void on(const request& at, const amqp::channel_close& what);
  void on(const request& at, const amqp::queue_declare& what);
  void on(const request& at, const amqp::queue_purge& what);
  void on(const request& at, const amqp::queue_delete& what);
  void on(const request& at, const amqp::basic_qos& what);
  void on(const request& at, const amqp::basic_consume& what);
  void on(const request& at, const amqp::basic_cancel& what);
  void on(const request& at, const amqp::basic_publish& what);
  void on(const request& at, const amqp::basic_get& what);
  void on(const request& at, const amqp::basic_ack& what);
  void on(const request& at, const amqp::basic_nack& what);
  void on(const request& at, const amqp::confirm_select& what);

  void say(const request& at, amqp::method what, broker_message content = {});
  void refuse(const request& at, std::uint16_t code, std::string_view text);
  void refuse_connection(const request& at, std::uint16_t code, std::string_view text);
  bool is_allowed(const request& at, right needed, const std::string& resource, std::string_view kind);
  /// These refuse the request, and return null, if the queue is missing, or is exclusive to another connection.
  queue_state* find(const request& at, const std::string& name);
  bool may_use(const request& at, const queue_state& queue, connection_id owner);
  channel_state& channel_of(const request& at) { return connections_.at(at.connection).channels.at(at.channel); }
  std::string in_virtual_host(std::string_view kind, std::string_view name) const;

  void declare_passively(const request& at, const amqp::queue_declare& what);
  void declare_again(const request& at, const queue_state& there, const amqp::queue_declare& what);
  void say_declared(const request& at, const queue_state& queue);

  bool route(const broker_message& message, time_point now);
  static std::uint64_t hand_out(queue_state& from, channel_state& to, std::string_view consumer_tag, bool no_ack);
  void deliver(queue_state& queue, time_point now);
  void deliver_ready(queue_state& queue);
  static void expire(queue_state& queue, time_point now);
  static void drop_overflow(queue_state& queue);
  void settle(const request& at, std::uint64_t tag, bool multiple, bool requeue);
  void release(connection_id from, std::uint16_t channel, delivered&& what, bool requeue, time_point now);
  void close_channel(connection_id which, std::uint16_t channel, time_point now);
  void remove_consumers(connection_id which, std::uint16_t channel, const std::string* tag);
  void remove_queue(const std::string& name);
  broker_queue view_of(const queue_state& queue) const;

  std::string virtual_host_;
  std::map<std::string, user_state> users_{};
  std::map<connection_id, connection_state> connections_{};
  std::map<std::string, queue_state> queues_{};
  std::vector<answer> answers_{};
  connection_id last_connection_ = 0;
  std::uint64_t last_queue_ = 0;
  std::uint64_t last_name_ = 0;
  bool has_alarm_ = false;
};

}  // namespace holdfast::testing::detail

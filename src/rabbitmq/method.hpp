// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rabbitmq/frame.hpp"

// The methods of AMQP 0-9-1 that this library sends or understands, as plain structs. rabbitmq-c encodes and decodes
// them. Fields that we never set are missing here: they are sent as zero and not read. A client's method that asks
// for no answer is refused, because that would change what follows.
namespace holdfast::rabbitmq::detail {

// --- The connection.

/// How the broker describes itself. Other members of its table are not kept.
struct server_properties {
  std::string product{};
  std::string version{};

  bool operator==(const server_properties&) const = default;
};

/// How a client describes itself. It always announces what it can do: see `capabilities` in method.cpp.
struct client_properties {
  std::string product{};
  std::string version{};
  std::string connection_name{};

  bool operator==(const client_properties&) const = default;
};

struct connection_start {
  std::uint8_t version_major = 0;
  std::uint8_t version_minor = 9;
  server_properties properties{};
  std::string mechanisms{};  ///< separated by spaces
  std::string locales{};

  bool operator==(const connection_start&) const = default;
};

struct connection_start_ok {
  client_properties properties{};
  std::string mechanism{};
  std::string response{};  ///< has the password
  std::string locale = "en_US";

  bool operator==(const connection_start_ok&) const = default;
};

/// Each is at most what the peer can do. 0 means that there is no limit, and no heartbeat.
struct connection_tune {
  std::uint16_t channel_max = 0;
  std::uint32_t frame_max = 0;
  std::uint16_t heartbeat = 0;  ///< in seconds

  bool operator==(const connection_tune&) const = default;
};

struct connection_tune_ok {
  std::uint16_t channel_max = 0;
  std::uint32_t frame_max = 0;
  std::uint16_t heartbeat = 0;

  bool operator==(const connection_tune_ok&) const = default;
};

struct connection_open {
  std::string virtual_host{};

  bool operator==(const connection_open&) const = default;
};

struct connection_open_ok {
  bool operator==(const connection_open_ok&) const = default;
};

struct connection_close {
  std::uint16_t reply_code = 0;
  std::string reply_text{};
  std::uint16_t class_id = 0;   ///< the method that has caused it, or 0
  std::uint16_t method_id = 0;  ///< the same

  bool operator==(const connection_close&) const = default;
};

struct connection_close_ok {
  bool operator==(const connection_close_ok&) const = default;
};

struct connection_blocked {
  std::string reason{};

  bool operator==(const connection_blocked&) const = default;
};

struct connection_unblocked {
  bool operator==(const connection_unblocked&) const = default;
};

// --- Channels.

struct channel_open {
  bool operator==(const channel_open&) const = default;
};

struct channel_open_ok {
  bool operator==(const channel_open_ok&) const = default;
};

struct channel_close {
  std::uint16_t reply_code = 0;
  std::string reply_text{};
  std::uint16_t class_id = 0;   ///< the method that has caused it, or 0
  std::uint16_t method_id = 0;  ///< the same

  bool operator==(const channel_close&) const = default;
};

struct channel_close_ok {
  bool operator==(const channel_close_ok&) const = default;
};

// --- Queues.

/// The arguments of a queue. They are left out if they are empty.
struct queue_arguments {
  std::optional<std::int64_t> max_length{};
  std::optional<std::int64_t> max_length_bytes{};
  std::optional<std::int64_t> message_ttl{};  ///< in milliseconds
  std::string queue_type{};
  /// The names of arguments that are none of these, or have another type. They are not sent.
  std::vector<std::string> others{};

  bool operator==(const queue_arguments&) const = default;
};

struct queue_declare {
  std::string queue{};
  bool passive = false;
  bool durable = false;
  bool exclusive = false;
  bool auto_delete = false;
  queue_arguments arguments{};

  bool operator==(const queue_declare&) const = default;
};

struct queue_declare_ok {
  std::string queue{};
  std::uint32_t message_count = 0;
  std::uint32_t consumer_count = 0;

  bool operator==(const queue_declare_ok&) const = default;
};

struct queue_purge {
  std::string queue{};

  bool operator==(const queue_purge&) const = default;
};

struct queue_purge_ok {
  std::uint32_t message_count = 0;

  bool operator==(const queue_purge_ok&) const = default;
};

struct queue_delete {
  std::string queue{};
  bool if_unused = false;
  bool if_empty = false;

  bool operator==(const queue_delete&) const = default;
};

struct queue_delete_ok {
  std::uint32_t message_count = 0;

  bool operator==(const queue_delete_ok&) const = default;
};

// --- Messages.

struct basic_qos {
  std::uint16_t prefetch_count = 0;

  bool operator==(const basic_qos&) const = default;
};

struct basic_qos_ok {
  bool operator==(const basic_qos_ok&) const = default;
};

struct basic_consume {
  std::string queue{};
  std::string consumer_tag{};
  bool no_ack = false;
  bool exclusive = false;

  bool operator==(const basic_consume&) const = default;
};

struct basic_consume_ok {
  std::string consumer_tag{};

  bool operator==(const basic_consume_ok&) const = default;
};

/// The broker sends this, too: it has removed the consumer, because its queue is gone. It asks for no answer then.
struct basic_cancel {
  std::string consumer_tag{};
  bool no_wait = false;

  bool operator==(const basic_cancel&) const = default;
};

struct basic_cancel_ok {
  std::string consumer_tag{};

  bool operator==(const basic_cancel_ok&) const = default;
};

struct basic_publish {
  std::string exchange{};
  std::string routing_key{};
  bool mandatory = false;

  bool operator==(const basic_publish&) const = default;
};

struct basic_return {
  std::uint16_t reply_code = 0;
  std::string reply_text{};
  std::string exchange{};
  std::string routing_key{};

  bool operator==(const basic_return&) const = default;
};

struct basic_deliver {
  std::string consumer_tag{};
  std::uint64_t delivery_tag = 0;
  bool redelivered = false;
  std::string exchange{};
  std::string routing_key{};

  bool operator==(const basic_deliver&) const = default;
};

struct basic_get {
  std::string queue{};
  bool no_ack = false;

  bool operator==(const basic_get&) const = default;
};

struct basic_get_ok {
  std::uint64_t delivery_tag = 0;
  bool redelivered = false;
  std::string exchange{};
  std::string routing_key{};
  std::uint32_t message_count = 0;

  bool operator==(const basic_get_ok&) const = default;
};

struct basic_get_empty {
  bool operator==(const basic_get_empty&) const = default;
};

struct basic_ack {
  std::uint64_t delivery_tag = 0;
  bool multiple = false;

  bool operator==(const basic_ack&) const = default;
};

struct basic_nack {
  std::uint64_t delivery_tag = 0;
  bool multiple = false;
  bool requeue = false;

  bool operator==(const basic_nack&) const = default;
};

struct confirm_select {
  bool operator==(const confirm_select&) const = default;
};

struct confirm_select_ok {
  bool operator==(const confirm_select_ok&) const = default;
};

using method =
    std::variant<connection_start, connection_start_ok, connection_tune, connection_tune_ok, connection_open,
                 connection_open_ok, connection_close, connection_close_ok, connection_blocked, connection_unblocked,
                 channel_open, channel_open_ok, channel_close, channel_close_ok, queue_declare, queue_declare_ok,
                 queue_purge, queue_purge_ok, queue_delete, queue_delete_ok, basic_qos, basic_qos_ok, basic_consume,
                 basic_consume_ok, basic_cancel, basic_cancel_ok, basic_publish, basic_return, basic_deliver, basic_get,
                 basic_get_ok, basic_get_empty, basic_ack, basic_nack, confirm_select, confirm_select_ok>;

/// The side that decodes a method. A method that the peer never sends is refused.
enum class decoder {
  client_before_tune_ok,
  client,  ///< refuses connection.start, too: it is the only method from a broker that has a table
  server,
};

/// Decodes the payload of a method frame. Fails with error::malformed_reply if the peer may not send this method, or
/// not on this channel. Fails also if the payload is longer or shorter than the method, or if a limit in it is too low.
/// `cause` then says why, without anything that the peer has sent. A method must fit into a frame of 4,096 bytes.
HOLDFAST_INTERNAL error_code decode_method(const frame& from, decoder decoder, method& out, std::string_view& cause);

/// Appends the frame of a method. Fails with error::bad_request, and appends nothing, if a text in it is too long.
HOLDFAST_INTERNAL error_code append_method(std::string& out, std::uint16_t channel, const method& what);

/// Returns the name for logs and traces, for example "queue.declare-ok".
HOLDFAST_INTERNAL std::string_view name_of(const method& what) noexcept;

/// True if a message follows: a content header, and then frames of the body.
HOLDFAST_INTERNAL bool has_content(const method& what) noexcept;

/// Returns the limits for both sides, from those that the broker offers and those that the client wants. A limit of 0
/// is none. The heartbeat is the client's.
connection_tune_ok negotiated(const connection_tune& offered, const connection_tune& wanted) noexcept;

// --- Messages behind a method.

/// The properties of a message that we use.
struct message_properties {
  std::string expiration{};  ///< in milliseconds, as text; not sent if empty
  bool is_persistent = false;

  bool operator==(const message_properties&) const = default;
};

/// Appends the content header and the body of a message. Fails like `append_method`.
HOLDFAST_INTERNAL error_code append_content(std::string& out, std::uint16_t channel,
                                            const message_properties& properties, std::string_view body,
                                            std::uint32_t frame_bytes_max);

/// Decodes the properties of a content header, for a server. The reader must keep the whole header, and it must fit
/// into a frame of 4,096 bytes.
HOLDFAST_INTERNAL error_code decode_properties(const frame& from, message_properties& out, std::string_view& cause);

/// Collects the message behind a method that has one. Properties are not decoded, and of the body no more is kept than
/// asked for, so a large message costs no memory.
class HOLDFAST_INTERNAL content_reader {
public:
  explicit content_reader(std::size_t body_bytes_kept = 0) noexcept : kept_max_(body_bytes_kept) {}

  /// Takes the next frame of the message. Fails with error::malformed_reply if it is not the expected one.
  error_code take(const frame& from, std::string_view& cause);

  bool is_complete() const noexcept { return has_header_ && seen_ == size_; }
  std::uint64_t body_bytes() const noexcept { return size_; }  ///< the size of the whole body, after its header

  /// The front of the body. The reader of frames must keep as many bytes of each body frame.
  const std::string& body() const noexcept { return body_; }

private:
  error_code take_header(const frame& from, std::string_view& cause);

  std::size_t kept_max_;
  bool has_header_ = false;
  std::uint64_t size_ = 0;
  std::uint64_t seen_ = 0;
  std::string body_{};
};

}  // namespace holdfast::rabbitmq::detail

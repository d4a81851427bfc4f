// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/method.hpp"

#if __has_include(<rabbitmq-c/amqp.h>)
#include <rabbitmq-c/amqp.h>
#include <rabbitmq-c/framing.h>
#else
#include <amqp.h>
#include <amqp_framing.h>
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <deque>
#include <limits>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "rabbitmq/big_endian.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

// In a method without a table, all texts but that of connection.start-ok have at most 255 bytes. So each fits.
constexpr std::size_t method_bytes_max = frame_max_least - frame_overhead;

// --- What rabbitmq-c allocates, and what it reads while it encodes.

class memory_pool {
public:
  memory_pool() { init_amqp_pool(&pool_, 1024); }
  ~memory_pool() { empty_amqp_pool(&pool_); }
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;

  amqp_pool_t* get() noexcept { return &pool_; }

private:
  amqp_pool_t pool_{};
};

/// The entries of the tables that are being encoded.
class table_storage {
public:
  amqp_table_t keep(std::vector<amqp_table_entry_t> entries) {
    std::vector<amqp_table_entry_t>& kept = tables_.emplace_back(std::move(entries));
    return {static_cast<int>(kept.size()), kept.data()};
  }

private:
  std::deque<std::vector<amqp_table_entry_t>> tables_{};
};

// rabbitmq-c only reads the bytes, but its struct has no const.
amqp_bytes_t to_bytes(std::string_view text) noexcept { return {text.size(), const_cast<char*>(text.data())}; }

std::string_view to_text(const amqp_bytes_t& bytes) noexcept {
  if (bytes.len == 0) return {};  // the pointer may be null
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}

amqp_table_entry_t text_entry(std::string_view key, std::string_view text) {
  amqp_table_entry_t entry{};
  entry.key = to_bytes(key);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = to_bytes(text);
  return entry;
}

amqp_table_entry_t number_entry(std::string_view key, std::int64_t number) {
  amqp_table_entry_t entry{};
  entry.key = to_bytes(key);
  entry.value.kind = AMQP_FIELD_KIND_I64;
  entry.value.value.i64 = number;
  return entry;
}

amqp_table_entry_t true_entry(std::string_view key) {
  amqp_table_entry_t entry{};
  entry.key = to_bytes(key);
  entry.value.kind = AMQP_FIELD_KIND_BOOLEAN;
  entry.value.value.boolean = 1;
  return entry;
}

amqp_table_entry_t table_entry(std::string_view key, const amqp_table_t& table) {
  amqp_table_entry_t entry{};
  entry.key = to_bytes(key);
  entry.value.kind = AMQP_FIELD_KIND_TABLE;
  entry.value.value.table = table;
  return entry;
}

std::optional<std::string_view> text_of(const amqp_field_value_t& value) {
  if (value.kind != AMQP_FIELD_KIND_UTF8 && value.kind != AMQP_FIELD_KIND_BYTES) return {};
  return to_text(value.value.bytes);
}

std::optional<std::int64_t> number_of(const amqp_field_value_t& value) {
  switch (value.kind) {
    case AMQP_FIELD_KIND_I8:
      return value.value.i8;
    case AMQP_FIELD_KIND_U8:
      return value.value.u8;
    case AMQP_FIELD_KIND_I16:
      return value.value.i16;
    case AMQP_FIELD_KIND_U16:
      return value.value.u16;
    case AMQP_FIELD_KIND_I32:
      return value.value.i32;
    case AMQP_FIELD_KIND_U32:
      return value.value.u32;
    case AMQP_FIELD_KIND_I64:
      return value.value.i64;
    case AMQP_FIELD_KIND_U64:
      if (!std::in_range<std::int64_t>(value.value.u64)) return {};
      return static_cast<std::int64_t>(value.value.u64);
    default:
      return {};
  }
}

/// Sets `out` to the text of the entry if it has this key. Entries of another type are left out.
void read_if(const amqp_table_entry_t& entry, std::string_view key, std::string& out) {
  if (to_text(entry.key) != key) return;
  if (const auto text = text_of(entry.value)) out = *text;
}

// --- A field of ours, and the field of rabbitmq-c's struct that means the same. The overloads for two kinds of fields
// --- copy from one to the other.

template <std::integral Number>
void write(Number from, Number& to, table_storage&) {
  to = from;
}
void write(bool from, amqp_boolean_t& to, table_storage&) { to = from ? 1 : 0; }
void write(const std::string& from, amqp_bytes_t& to, table_storage&) { to = to_bytes(from); }

void write(const server_properties& from, amqp_table_t& to, table_storage& tables) {
  to = tables.keep({text_entry("product", from.product), text_entry("version", from.version)});
}

// With these a broker says by connection.blocked that an alarm stops publishes, by basic.cancel that a consumer is
// gone, and by connection.close that a login was refused.
amqp_table_t capabilities(table_storage& tables) {
  return tables.keep({true_entry("publisher_confirms"), true_entry("basic.nack"), true_entry("consumer_cancel_notify"),
                      true_entry("connection.blocked"), true_entry("authentication_failure_close")});
}

void write(const client_properties& from, amqp_table_t& to, table_storage& tables) {
  to = tables.keep({text_entry("product", from.product), text_entry("version", from.version),
                    text_entry("connection_name", from.connection_name),
                    table_entry("capabilities", capabilities(tables))});
}

constexpr std::string_view max_length_key = "x-max-length";
constexpr std::string_view max_length_bytes_key = "x-max-length-bytes";
constexpr std::string_view message_ttl_key = "x-message-ttl";
constexpr std::string_view queue_type_key = "x-queue-type";

void write(const queue_arguments& from, amqp_table_t& to, table_storage& tables) {
  std::vector<amqp_table_entry_t> entries;
  if (from.max_length) entries.push_back(number_entry(max_length_key, *from.max_length));
  if (from.max_length_bytes) entries.push_back(number_entry(max_length_bytes_key, *from.max_length_bytes));
  if (from.message_ttl) entries.push_back(number_entry(message_ttl_key, *from.message_ttl));
  if (!from.queue_type.empty()) entries.push_back(text_entry(queue_type_key, from.queue_type));
  to = tables.keep(std::move(entries));
}

template <std::integral Number>
void read(Number from, Number& to) {
  to = from;
}
void read(amqp_boolean_t from, bool& to) { to = from != 0; }
void read(const amqp_bytes_t& from, std::string& to) { to = to_text(from); }

void read(const amqp_table_t& from, server_properties& to) {
  for (int i = 0; i != from.num_entries; ++i) {
    read_if(from.entries[i], "product", to.product);
    read_if(from.entries[i], "version", to.version);
  }
}

void read(const amqp_table_t& from, client_properties& to) {
  for (int i = 0; i != from.num_entries; ++i) {
    read_if(from.entries[i], "product", to.product);
    read_if(from.entries[i], "version", to.version);
    read_if(from.entries[i], "connection_name", to.connection_name);
  }
}

/// Returns false if the argument is none that `queue_arguments` has.
bool read_argument(std::string_view key, const amqp_field_value_t& value, queue_arguments& to) {
  if (key == queue_type_key) {
    const auto text = text_of(value);
    if (!text || text->empty()) return false;
    to.queue_type = *text;
    return true;
  }
  const std::pair<std::string_view, std::optional<std::int64_t>*> numbers[] = {
      {max_length_key, &to.max_length},
      {max_length_bytes_key, &to.max_length_bytes},
      {message_ttl_key, &to.message_ttl},
  };
  for (const auto& [name, number] : numbers) {
    if (key != name) continue;
    *number = number_of(value);
    return number->has_value();
  }
  return false;
}

void read(const amqp_table_t& from, queue_arguments& to) {
  for (int i = 0; i != from.num_entries; ++i) {
    const amqp_table_entry_t& entry = from.entries[i];
    if (!read_argument(to_text(entry.key), entry.value, to)) to.others.emplace_back(to_text(entry.key));
  }
}

template <class Ours, class Theirs, class OurType, class TheirType>
struct field {
  OurType Ours::*ours;
  TheirType Theirs::*theirs;

  void write_to(Theirs& to, const Ours& from, table_storage& tables) const { write(from.*ours, to.*theirs, tables); }
  void read_from(const Theirs& from, Ours& to) const { read(from.*theirs, to.*ours); }
};

template <class Ours, class Theirs, class OurType, class TheirType>
constexpr auto pair(OurType Ours::*ours, TheirType Theirs::*theirs) {
  return field<Ours, Theirs, OurType, TheirType>{ours, theirs};
}

// --- The table of the methods.

enum class sender { client, broker, both };

template <amqp_method_number_t Id, class Theirs>
struct row {
  using type = Theirs;
  static constexpr amqp_method_number_t id = Id;
  static constexpr bool has_table = false;
  static constexpr auto fields = std::tuple();
};

template <class Ours>
struct wire;

template <>
struct wire<connection_start> : row<AMQP_CONNECTION_START_METHOD, amqp_connection_start_t> {
  static constexpr std::string_view name = "connection.start";
  static constexpr sender by = sender::broker;
  static constexpr bool has_table = true;
  static constexpr auto fields = std::tuple(pair(&connection_start::version_major, &type::version_major),
                                            pair(&connection_start::version_minor, &type::version_minor),
                                            pair(&connection_start::properties, &type::server_properties),
                                            pair(&connection_start::mechanisms, &type::mechanisms),
                                            pair(&connection_start::locales, &type::locales));
};

template <>
struct wire<connection_start_ok> : row<AMQP_CONNECTION_START_OK_METHOD, amqp_connection_start_ok_t> {
  static constexpr std::string_view name = "connection.start-ok";
  static constexpr sender by = sender::client;
  static constexpr bool has_table = true;
  static constexpr auto fields = std::tuple(pair(&connection_start_ok::properties, &type::client_properties),
                                            pair(&connection_start_ok::mechanism, &type::mechanism),
                                            pair(&connection_start_ok::response, &type::response),
                                            pair(&connection_start_ok::locale, &type::locale));
};

template <>
struct wire<connection_tune> : row<AMQP_CONNECTION_TUNE_METHOD, amqp_connection_tune_t> {
  static constexpr std::string_view name = "connection.tune";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&connection_tune::channel_max, &type::channel_max),
                                            pair(&connection_tune::frame_max, &type::frame_max),
                                            pair(&connection_tune::heartbeat, &type::heartbeat));
};

template <>
struct wire<connection_tune_ok> : row<AMQP_CONNECTION_TUNE_OK_METHOD, amqp_connection_tune_ok_t> {
  static constexpr std::string_view name = "connection.tune-ok";
  static constexpr sender by = sender::client;
  static constexpr auto fields = std::tuple(pair(&connection_tune_ok::channel_max, &type::channel_max),
                                            pair(&connection_tune_ok::frame_max, &type::frame_max),
                                            pair(&connection_tune_ok::heartbeat, &type::heartbeat));
};

template <>
struct wire<connection_open> : row<AMQP_CONNECTION_OPEN_METHOD, amqp_connection_open_t> {
  static constexpr std::string_view name = "connection.open";
  static constexpr sender by = sender::client;
  static constexpr auto fields = std::tuple(pair(&connection_open::virtual_host, &type::virtual_host));
};

template <>
struct wire<connection_open_ok> : row<AMQP_CONNECTION_OPEN_OK_METHOD, amqp_connection_open_ok_t> {
  static constexpr std::string_view name = "connection.open-ok";
  static constexpr sender by = sender::broker;
};

template <>
struct wire<connection_close> : row<AMQP_CONNECTION_CLOSE_METHOD, amqp_connection_close_t> {
  static constexpr std::string_view name = "connection.close";
  static constexpr sender by = sender::both;
  static constexpr auto fields = std::tuple(
      pair(&connection_close::reply_code, &type::reply_code), pair(&connection_close::reply_text, &type::reply_text),
      pair(&connection_close::class_id, &type::class_id), pair(&connection_close::method_id, &type::method_id));
};

template <>
struct wire<connection_close_ok> : row<AMQP_CONNECTION_CLOSE_OK_METHOD, amqp_connection_close_ok_t> {
  static constexpr std::string_view name = "connection.close-ok";
  static constexpr sender by = sender::both;
};

template <>
struct wire<connection_blocked> : row<AMQP_CONNECTION_BLOCKED_METHOD, amqp_connection_blocked_t> {
  static constexpr std::string_view name = "connection.blocked";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&connection_blocked::reason, &type::reason));
};

template <>
struct wire<connection_unblocked> : row<AMQP_CONNECTION_UNBLOCKED_METHOD, amqp_connection_unblocked_t> {
  static constexpr std::string_view name = "connection.unblocked";
  static constexpr sender by = sender::broker;
};

template <>
struct wire<channel_open> : row<AMQP_CHANNEL_OPEN_METHOD, amqp_channel_open_t> {
  static constexpr std::string_view name = "channel.open";
  static constexpr sender by = sender::client;
};

template <>
struct wire<channel_open_ok> : row<AMQP_CHANNEL_OPEN_OK_METHOD, amqp_channel_open_ok_t> {
  static constexpr std::string_view name = "channel.open-ok";
  static constexpr sender by = sender::broker;
};

template <>
struct wire<channel_close> : row<AMQP_CHANNEL_CLOSE_METHOD, amqp_channel_close_t> {
  static constexpr std::string_view name = "channel.close";
  static constexpr sender by = sender::both;
  static constexpr auto fields = std::tuple(
      pair(&channel_close::reply_code, &type::reply_code), pair(&channel_close::reply_text, &type::reply_text),
      pair(&channel_close::class_id, &type::class_id), pair(&channel_close::method_id, &type::method_id));
};

template <>
struct wire<channel_close_ok> : row<AMQP_CHANNEL_CLOSE_OK_METHOD, amqp_channel_close_ok_t> {
  static constexpr std::string_view name = "channel.close-ok";
  static constexpr sender by = sender::both;
};

template <>
struct wire<queue_declare> : row<AMQP_QUEUE_DECLARE_METHOD, amqp_queue_declare_t> {
  static constexpr std::string_view name = "queue.declare";
  static constexpr sender by = sender::client;
  static constexpr bool has_table = true;
  static constexpr auto fields = std::tuple(
      pair(&queue_declare::queue, &type::queue), pair(&queue_declare::passive, &type::passive),
      pair(&queue_declare::durable, &type::durable), pair(&queue_declare::exclusive, &type::exclusive),
      pair(&queue_declare::auto_delete, &type::auto_delete), pair(&queue_declare::arguments, &type::arguments));
};

template <>
struct wire<queue_declare_ok> : row<AMQP_QUEUE_DECLARE_OK_METHOD, amqp_queue_declare_ok_t> {
  static constexpr std::string_view name = "queue.declare-ok";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&queue_declare_ok::queue, &type::queue),
                                            pair(&queue_declare_ok::message_count, &type::message_count),
                                            pair(&queue_declare_ok::consumer_count, &type::consumer_count));
};

template <>
struct wire<queue_purge> : row<AMQP_QUEUE_PURGE_METHOD, amqp_queue_purge_t> {
  static constexpr std::string_view name = "queue.purge";
  static constexpr sender by = sender::client;
  static constexpr auto fields = std::tuple(pair(&queue_purge::queue, &type::queue));
};

template <>
struct wire<queue_purge_ok> : row<AMQP_QUEUE_PURGE_OK_METHOD, amqp_queue_purge_ok_t> {
  static constexpr std::string_view name = "queue.purge-ok";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&queue_purge_ok::message_count, &type::message_count));
};

template <>
struct wire<queue_delete> : row<AMQP_QUEUE_DELETE_METHOD, amqp_queue_delete_t> {
  static constexpr std::string_view name = "queue.delete";
  static constexpr sender by = sender::client;
  static constexpr auto fields =
      std::tuple(pair(&queue_delete::queue, &type::queue), pair(&queue_delete::if_unused, &type::if_unused),
                 pair(&queue_delete::if_empty, &type::if_empty));
};

template <>
struct wire<queue_delete_ok> : row<AMQP_QUEUE_DELETE_OK_METHOD, amqp_queue_delete_ok_t> {
  static constexpr std::string_view name = "queue.delete-ok";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&queue_delete_ok::message_count, &type::message_count));
};

template <>
struct wire<basic_qos> : row<AMQP_BASIC_QOS_METHOD, amqp_basic_qos_t> {
  static constexpr std::string_view name = "basic.qos";
  static constexpr sender by = sender::client;
  static constexpr auto fields = std::tuple(pair(&basic_qos::prefetch_count, &type::prefetch_count));
};

template <>
struct wire<basic_qos_ok> : row<AMQP_BASIC_QOS_OK_METHOD, amqp_basic_qos_ok_t> {
  static constexpr std::string_view name = "basic.qos-ok";
  static constexpr sender by = sender::broker;
};

template <>
struct wire<basic_consume> : row<AMQP_BASIC_CONSUME_METHOD, amqp_basic_consume_t> {
  static constexpr std::string_view name = "basic.consume";
  static constexpr sender by = sender::client;
  static constexpr bool has_table = true;
  static constexpr auto fields =
      std::tuple(pair(&basic_consume::queue, &type::queue), pair(&basic_consume::consumer_tag, &type::consumer_tag),
                 pair(&basic_consume::no_ack, &type::no_ack), pair(&basic_consume::exclusive, &type::exclusive));
};

template <>
struct wire<basic_consume_ok> : row<AMQP_BASIC_CONSUME_OK_METHOD, amqp_basic_consume_ok_t> {
  static constexpr std::string_view name = "basic.consume-ok";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(pair(&basic_consume_ok::consumer_tag, &type::consumer_tag));
};

template <>
struct wire<basic_cancel> : row<AMQP_BASIC_CANCEL_METHOD, amqp_basic_cancel_t> {
  static constexpr std::string_view name = "basic.cancel";
  static constexpr sender by = sender::both;
  static constexpr auto fields =
      std::tuple(pair(&basic_cancel::consumer_tag, &type::consumer_tag), pair(&basic_cancel::no_wait, &type::nowait));
};

template <>
struct wire<basic_cancel_ok> : row<AMQP_BASIC_CANCEL_OK_METHOD, amqp_basic_cancel_ok_t> {
  static constexpr std::string_view name = "basic.cancel-ok";
  static constexpr sender by = sender::both;
  static constexpr auto fields = std::tuple(pair(&basic_cancel_ok::consumer_tag, &type::consumer_tag));
};

template <>
struct wire<basic_publish> : row<AMQP_BASIC_PUBLISH_METHOD, amqp_basic_publish_t> {
  static constexpr std::string_view name = "basic.publish";
  static constexpr sender by = sender::client;
  static constexpr auto fields =
      std::tuple(pair(&basic_publish::exchange, &type::exchange), pair(&basic_publish::routing_key, &type::routing_key),
                 pair(&basic_publish::mandatory, &type::mandatory));
};

template <>
struct wire<basic_return> : row<AMQP_BASIC_RETURN_METHOD, amqp_basic_return_t> {
  static constexpr std::string_view name = "basic.return";
  static constexpr sender by = sender::broker;
  static constexpr auto fields =
      std::tuple(pair(&basic_return::reply_code, &type::reply_code), pair(&basic_return::reply_text, &type::reply_text),
                 pair(&basic_return::exchange, &type::exchange), pair(&basic_return::routing_key, &type::routing_key));
};

template <>
struct wire<basic_deliver> : row<AMQP_BASIC_DELIVER_METHOD, amqp_basic_deliver_t> {
  static constexpr std::string_view name = "basic.deliver";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(
      pair(&basic_deliver::consumer_tag, &type::consumer_tag), pair(&basic_deliver::delivery_tag, &type::delivery_tag),
      pair(&basic_deliver::redelivered, &type::redelivered), pair(&basic_deliver::exchange, &type::exchange),
      pair(&basic_deliver::routing_key, &type::routing_key));
};

template <>
struct wire<basic_get> : row<AMQP_BASIC_GET_METHOD, amqp_basic_get_t> {
  static constexpr std::string_view name = "basic.get";
  static constexpr sender by = sender::client;
  static constexpr auto fields =
      std::tuple(pair(&basic_get::queue, &type::queue), pair(&basic_get::no_ack, &type::no_ack));
};

template <>
struct wire<basic_get_ok> : row<AMQP_BASIC_GET_OK_METHOD, amqp_basic_get_ok_t> {
  static constexpr std::string_view name = "basic.get-ok";
  static constexpr sender by = sender::broker;
  static constexpr auto fields = std::tuple(
      pair(&basic_get_ok::delivery_tag, &type::delivery_tag), pair(&basic_get_ok::redelivered, &type::redelivered),
      pair(&basic_get_ok::exchange, &type::exchange), pair(&basic_get_ok::routing_key, &type::routing_key),
      pair(&basic_get_ok::message_count, &type::message_count));
};

template <>
struct wire<basic_get_empty> : row<AMQP_BASIC_GET_EMPTY_METHOD, amqp_basic_get_empty_t> {
  static constexpr std::string_view name = "basic.get-empty";
  static constexpr sender by = sender::broker;
};

template <>
struct wire<basic_ack> : row<AMQP_BASIC_ACK_METHOD, amqp_basic_ack_t> {
  static constexpr std::string_view name = "basic.ack";
  static constexpr sender by = sender::both;
  static constexpr auto fields =
      std::tuple(pair(&basic_ack::delivery_tag, &type::delivery_tag), pair(&basic_ack::multiple, &type::multiple));
};

template <>
struct wire<basic_nack> : row<AMQP_BASIC_NACK_METHOD, amqp_basic_nack_t> {
  static constexpr std::string_view name = "basic.nack";
  static constexpr sender by = sender::both;
  static constexpr auto fields =
      std::tuple(pair(&basic_nack::delivery_tag, &type::delivery_tag), pair(&basic_nack::multiple, &type::multiple),
                 pair(&basic_nack::requeue, &type::requeue));
};

template <>
struct wire<confirm_select> : row<AMQP_CONFIRM_SELECT_METHOD, amqp_confirm_select_t> {
  static constexpr std::string_view name = "confirm.select";
  static constexpr sender by = sender::client;
};

template <>
struct wire<confirm_select_ok> : row<AMQP_CONFIRM_SELECT_OK_METHOD, amqp_confirm_select_ok_t> {
  static constexpr std::string_view name = "confirm.select-ok";
  static constexpr sender by = sender::broker;
};

// --- Decoding.

constexpr std::uint16_t connection_class = 10;
constexpr std::uint16_t basic_class = 60;

error_code refuse(std::string_view why, std::string_view& cause) {
  cause = why;
  return error::malformed_reply;
}

bool may_come(sender by, decoder decoder) noexcept {
  return by == sender::both || (by == sender::client) == (decoder == decoder::server);
}

void throw_if_out_of_memory(int status) {
  if (status == AMQP_STATUS_NO_MEMORY) throw std::bad_alloc();
}

// Encodes it again, because rabbitmq-c ignores bytes behind the last field, and reports no size.
template <class Theirs>
bool has_size(amqp_method_number_t id, Theirs& decoded, std::size_t size) {
  std::array<char, method_bytes_max> buffer;
  return amqp_encode_method(id, &decoded, {buffer.size(), buffer.data()}) == static_cast<int>(size);
}

template <class Theirs>
bool asks_for_no_answer(const Theirs& decoded) noexcept {
  if constexpr (requires { decoded.nowait; }) {
    return decoded.nowait != 0;
  } else {
    return false;
  }
}

std::string_view problem_of(std::uint16_t channel_max, std::uint32_t frame_max) noexcept {
  if (frame_max != 0 && frame_max < frame_max_least) return "a peer offers frames of less than 4,096 bytes";
  if (channel_max != 0 && channel_max < channel_max_least) return "a peer offers less than 3 channels";
  return {};
}

template <class Ours>
std::string_view problem_in(const Ours&) noexcept {
  return {};
}
std::string_view problem_in(const connection_start& start) noexcept {
  const bool is_right = start.version_major == 0 && start.version_minor == 9;
  return is_right ? std::string_view() : "a broker speaks another version than AMQP 0-9-1";
}
std::string_view problem_in(const connection_tune& tune) noexcept {
  return problem_of(tune.channel_max, tune.frame_max);
}
std::string_view problem_in(const connection_tune_ok& tune) noexcept {
  return problem_of(tune.channel_max, tune.frame_max);
}

template <class Ours>
error_code decode_as(std::string_view arguments, decoder decoder, method& out, std::string_view& cause) {
  using wire = detail::wire<Ours>;
  if (!may_come(wire::by, decoder)) return refuse("a peer has sent a method that only its peer may send", cause);
  if (wire::has_table && decoder == decoder::client) return refuse("a broker begins a connection twice", cause);
  if (arguments.size() > method_bytes_max) return refuse("a method is larger than it can be", cause);
  memory_pool pool;
  void* decoded = nullptr;
  const int status = amqp_decode_method(wire::id, pool.get(), to_bytes(arguments), &decoded);
  throw_if_out_of_memory(status);
  if (status != AMQP_STATUS_OK || !decoded) return refuse("the arguments of a method cannot be decoded", cause);
  auto& theirs = *static_cast<typename wire::type*>(decoded);
  if (!has_size(wire::id, theirs, arguments.size())) return refuse("a method has bytes behind its end", cause);
  if (decoder == decoder::server && asks_for_no_answer(theirs)) return refuse("a method asks for no answer", cause);
  Ours ours{};
  std::apply([&](const auto&... fields) { (fields.read_from(theirs, ours), ...); }, wire::fields);
  if (const std::string_view problem = problem_in(ours); !problem.empty()) return refuse(problem, cause);
  out = std::move(ours);
  return {};
}

using decode_function = error_code (*)(std::string_view, decoder, method&, std::string_view&);

template <class... Each>
decode_function function_for(amqp_method_number_t id, std::variant<Each...>*) noexcept {
  decode_function found = nullptr;
  ((wire<Each>::id == id ? void(found = &decode_as<Each>) : void()), ...);
  return found;
}

template <class Ours>
int encode(const Ours& from, amqp_bytes_t buffer) {
  using wire = detail::wire<Ours>;
  typename wire::type theirs{};
  table_storage tables;
  std::apply([&](const auto&... fields) { (fields.write_to(theirs, from, tables), ...); }, wire::fields);
  return amqp_encode_method(wire::id, &theirs, buffer);
}

}  // namespace

error_code decode_method(const frame& from, decoder decoder, method& out, std::string_view& cause) {
  if (from.type != frame_type::method) return refuse("a method is missing", cause);
  const auto id = big_endian<std::uint32_t>(from.payload, 0);
  if ((id >> 16 == connection_class) != (from.channel == 0)) return refuse("a method has a wrong channel", cause);
  const decode_function decode = function_for(id, static_cast<method*>(nullptr));
  if (!decode) return refuse("a peer has sent a method that is not expected", cause);
  return decode(from.payload.substr(4), decoder, out, cause);
}

error_code append_method(std::string& out, std::uint16_t channel, const method& what) {
  std::array<char, method_bytes_max> buffer;
  const auto id = std::visit([]<class Ours>(const Ours&) { return wire<Ours>::id; }, what);
  std::string payload;
  append_big_endian(payload, id);
  const amqp_bytes_t space{buffer.size() - payload.size(), buffer.data()};
  const int size = std::visit([&](const auto& ours) { return encode(ours, space); }, what);
  throw_if_out_of_memory(size);
  if (size < 0) return error::bad_request;
  payload.append(buffer.data(), static_cast<std::size_t>(size));
  append_frame(out, frame_type::method, channel, payload);
  return {};
}

std::string_view name_of(const method& what) noexcept {
  return std::visit([]<class Ours>(const Ours&) { return wire<Ours>::name; }, what);
}

bool has_content(const method& what) noexcept {
  return std::holds_alternative<basic_publish>(what) || std::holds_alternative<basic_return>(what) ||
         std::holds_alternative<basic_deliver>(what) || std::holds_alternative<basic_get_ok>(what);
}

connection_tune_ok negotiated(const connection_tune& offered, const connection_tune& wanted) noexcept {
  const auto lower = [](auto a, auto b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); };
  return {lower(offered.channel_max, wanted.channel_max), lower(offered.frame_max, wanted.frame_max), wanted.heartbeat};
}

error_code append_content(std::string& out, std::uint16_t channel, const message_properties& properties,
                          std::string_view body, std::uint32_t frame_bytes_max) {
  constexpr std::uint8_t transient = 1;
  constexpr std::uint8_t persistent = 2;
  amqp_basic_properties_t theirs{};
  theirs._flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
  theirs.delivery_mode = properties.is_persistent ? persistent : transient;
  if (!properties.expiration.empty()) {
    theirs._flags |= AMQP_BASIC_EXPIRATION_FLAG;
    theirs.expiration = to_bytes(properties.expiration);
  }
  std::array<char, method_bytes_max> buffer;
  const int size = amqp_encode_properties(basic_class, &theirs, {buffer.size(), buffer.data()});
  if (size < 0) return error::bad_request;
  std::string payload;
  append_big_endian(payload, basic_class);
  append_big_endian(payload, std::uint16_t{0});  // the weight, which is not used
  append_big_endian(payload, std::uint64_t{body.size()});
  payload.append(buffer.data(), static_cast<std::size_t>(size));
  append_frame(out, frame_type::header, channel, payload);
  append_body(out, channel, body, frame_bytes_max);
  return {};
}

error_code decode_properties(const frame& from, message_properties& out, std::string_view& cause) {
  constexpr std::size_t properties_at = 12;
  if (from.type != frame_type::header || from.payload.size() != from.payload_bytes)
    return refuse("the header of a message is missing", cause);
  if (from.payload.size() > method_bytes_max) return refuse("the properties of a message are too large", cause);
  memory_pool pool;
  void* decoded = nullptr;
  const int status =
      amqp_decode_properties(basic_class, pool.get(), to_bytes(from.payload.substr(properties_at)), &decoded);
  throw_if_out_of_memory(status);
  if (status != AMQP_STATUS_OK || !decoded) return refuse("the properties of a message cannot be decoded", cause);
  const auto& theirs = *static_cast<const amqp_basic_properties_t*>(decoded);
  out = {};
  if (theirs._flags & AMQP_BASIC_EXPIRATION_FLAG) out.expiration = to_text(theirs.expiration);
  out.is_persistent = (theirs._flags & AMQP_BASIC_DELIVERY_MODE_FLAG) != 0 && theirs.delivery_mode == 2;
  return {};
}

error_code content_reader::take_header(const frame& from, std::string_view& cause) {
  if (from.type != frame_type::header) return refuse("the header of a message is missing", cause);
  if (big_endian<std::uint16_t>(from.payload, 0) != basic_class) return refuse("a message has a wrong class", cause);
  size_ = big_endian<std::uint64_t>(from.payload, 4);
  has_header_ = true;
  return {};
}

error_code content_reader::take(const frame& from, std::string_view& cause) {
  if (!has_header_) return take_header(from, cause);
  if (from.type != frame_type::body) return refuse("the body of a message is missing", cause);
  if (from.payload_bytes > size_ - seen_) return refuse("the body of a message is larger than announced", cause);
  seen_ += from.payload_bytes;
  body_ += from.payload.substr(0, kept_max_ - std::min(kept_max_, body_.size()));
  return {};
}

}  // namespace holdfast::rabbitmq::detail

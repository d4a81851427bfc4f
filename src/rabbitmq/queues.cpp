// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/queues.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "protocol/broker/broker_events.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr const char* classic = "classic";
constexpr std::int64_t hints_max = 1000;
constexpr std::int64_t hint_ttl_ms = 2000;
constexpr const char* token = "clean";
constexpr std::chrono::seconds heartbeat_max{60};

step publish(std::string queue, std::string body) {
  basic_publish sent;
  sent.routing_key = std::move(queue);
  return {std::move(sent), {}, std::move(body)};
}

step declare(std::string queue, bool exclusive, queue_arguments arguments) {
  queue_declare sent;
  sent.queue = std::move(queue);
  sent.exclusive = exclusive;
  sent.durable = !exclusive;
  sent.arguments = std::move(arguments);
  sent.arguments.queue_type = classic;
  return {std::move(sent), {}, {}};
}

queue_arguments length(std::int64_t most) {
  queue_arguments arguments;
  arguments.max_length = most;
  return arguments;
}

}  // namespace

step queues::passive(std::string queue) {
  queue_declare sent;
  sent.queue = std::move(queue);
  sent.passive = true;
  return {std::move(sent), {}, {}};
}

step queues::take(std::uint32_t slot) const { return declare(holder(slot), true, length(0)); }

step queues::declare_tokens(std::uint32_t slot) const {
  queue_arguments arguments = length(1);
  arguments.max_length_bytes = lease_.count();
  return declare(tokens(slot), false, std::move(arguments));
}

step queues::declare_existence(std::uint32_t slot) const { return declare(existence(slot), false, length(0)); }

step queues::declare_hints() const {
  queue_arguments arguments = length(hints_max);
  arguments.message_ttl = hint_ttl_ms;
  return declare(names_.hints(), false, std::move(arguments));
}

step queues::lock() const {
  queue_declare sent;
  sent.queue = names_.administration();
  sent.exclusive = true;
  return {std::move(sent), {}, {}};
}

// The arguments limit nothing. They make the broker refuse another number or another lease.
step queues::declare_mark(std::uint32_t count) const {
  queue_arguments arguments = length(count);
  arguments.max_length_bytes = lease_.count();
  return declare(mark(), false, std::move(arguments));
}

step queues::get_token(std::uint32_t slot) const { return {basic_get{tokens(slot), true}, {}, {}}; }
step queues::purge_tokens(std::uint32_t slot) const { return {queue_purge{tokens(slot)}, {}, {}}; }
step queues::publish_token(std::uint32_t slot) const { return publish(tokens(slot), token); }
step queues::publish_hint(std::uint32_t slot) const { return publish(names_.hints(), std::to_string(slot)); }

step queues::probe(std::string queue) {
  basic_publish sent;
  sent.routing_key = std::move(queue);
  sent.mandatory = true;
  message_properties properties;
  properties.expiration = "0";
  return {std::move(sent), std::move(properties), {}};
}

std::uint16_t heartbeat_for(std::chrono::milliseconds lease) noexcept {
  const auto half = std::chrono::floor<std::chrono::seconds>(lease / 2);
  return static_cast<std::uint16_t>(std::clamp(half, std::chrono::seconds(1), heartbeat_max).count());
}

std::uint32_t number_in_hint(const std::string& body) noexcept {
  std::uint32_t number = 0;
  const auto [end, failed] = std::from_chars(body.data(), body.data() + body.size(), number);
  return failed == std::errc() && end == body.data() + body.size() && number <= protocol::slot_number_max ? number : 0;
}

}  // namespace holdfast::rabbitmq::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <charconv>

#include "model.hpp"

// Queues and messages.
namespace holdfast::testing::detail {
namespace {

constexpr std::string_view reserved_prefix = "amq.";
constexpr std::string_view classic = "classic";

std::string_view type_of(const amqp::queue_arguments& arguments) noexcept {
  return arguments.queue_type.empty() ? classic : std::string_view(arguments.queue_type);
}

std::string described(const std::optional<std::int64_t>& number) {
  return number ? "the value '" + std::to_string(*number) + "' of type 'long'" : "none";
}

std::string difference(std::string_view key, const std::string& received, const std::string& current,
                       const std::string& queue) {
  std::string out = "inequivalent arg '";
  return out.append(key)
      .append("' for ")
      .append(queue)
      .append(": received ")
      .append(received)
      .append(" but current is ")
      .append(current);
}

// Returns an empty text if the numbers are equal.
std::string difference(std::string_view key, const std::optional<std::int64_t>& received,
                       const std::optional<std::int64_t>& current, const std::string& queue) {
  if (received == current) return {};
  if (!received || !current) return difference(key, described(received), described(current), queue);
  return difference(key, "'" + std::to_string(*received) + "'", "'" + std::to_string(*current) + "'", queue);
}

std::string difference(std::string_view key, bool received, bool current, const std::string& queue) {
  if (received == current) return {};
  return difference(key, std::string(received ? "'true'" : "'false'"), std::string(current ? "'true'" : "'false'"),
                    queue);
}

std::string difference(const amqp::queue_declare& received, const amqp::queue_declare& current,
                       const std::string& queue) {
  const auto& ours = received.arguments;
  const auto& theirs = current.arguments;
  std::string found = difference("durable", received.durable, current.durable, queue);
  if (found.empty()) found = difference("auto_delete", received.auto_delete, current.auto_delete, queue);
  if (found.empty()) found = difference("x-max-length", ours.max_length, theirs.max_length, queue);
  if (found.empty()) found = difference("x-max-length-bytes", ours.max_length_bytes, theirs.max_length_bytes, queue);
  if (found.empty()) found = difference("x-message-ttl", ours.message_ttl, theirs.message_ttl, queue);
  return found;
}

// Returns an empty text if the model has queues with these arguments.
std::string invalid_argument(const amqp::queue_arguments& arguments) {
  if (type_of(arguments) != classic) return "invalid arg 'x-queue-type'";
  if (!arguments.others.empty()) return "invalid arg '" + arguments.others.front() + "'";
  if (arguments.max_length.value_or(0) < 0) return "invalid arg 'x-max-length'";
  if (arguments.max_length_bytes.value_or(0) < 0) return "invalid arg 'x-max-length-bytes'";
  if (arguments.message_ttl.value_or(0) < 0) return "invalid arg 'x-message-ttl'";
  return {};
}

std::optional<std::chrono::milliseconds> parse_expiration(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return std::chrono::milliseconds(number);
}

}  // namespace

// --- Finding queues.

broker_model::queue_state* broker_model::find(const request& at, const std::string& name) {
  const auto found = queues_.find(name);
  if (found != queues_.end()) {
    expire(found->second, at.now);
    return &found->second;
  }
  refuse(at, 404, "no " + in_virtual_host("queue", name));
  return nullptr;
}

bool broker_model::may_use(const request& at, const queue_state& queue, connection_id owner) {
  if (queue.owner == owner) return true;
  refuse(at, 405,
         "cannot obtain exclusive access to locked " + in_virtual_host("queue", queue.declared.queue) +
             ". It could be originally declared on another connection or the exclusive property value does not match "
             "that of the original declaration.");
  return false;
}

// --- Methods of queues.

void broker_model::on(const request& at, const amqp::queue_declare& what) {
  if (what.passive) return declare_passively(at, what);
  if (what.queue.starts_with(reserved_prefix))
    return refuse(at, 403, "queue name '" + what.queue + "' contains reserved prefix 'amq.*'");
  amqp::queue_declare declared = what;
  if (declared.queue.empty()) declared.queue = "amq.gen-" + std::to_string(++last_name_);
  if (!is_allowed(at, right::configure, declared.queue, "queue")) return;
  if (const auto there = queues_.find(declared.queue); there != queues_.end()) {
    expire(there->second, at.now);
    return declare_again(at, there->second, declared);
  }
  if (const std::string invalid = invalid_argument(declared.arguments); !invalid.empty())
    return refuse(at, 406, invalid + " for " + in_virtual_host("queue", declared.queue));
  queue_state& made = queues_[declared.queue];
  made.id = ++last_queue_;
  made.owner = declared.exclusive ? at.connection : 0;
  made.declared = std::move(declared);
  say_declared(at, made);
}

// Arguments are not compared, and no rights are needed.
void broker_model::declare_passively(const request& at, const amqp::queue_declare& what) {
  const queue_state* const there = find(at, what.queue);
  if (there && (there->owner == 0 || may_use(at, *there, at.connection))) say_declared(at, *there);
}

void broker_model::declare_again(const request& at, const queue_state& there, const amqp::queue_declare& what) {
  if (!may_use(at, there, what.exclusive ? at.connection : 0)) return;
  const std::string found = difference(what, there.declared, in_virtual_host("queue", what.queue));
  if (!found.empty()) return refuse(at, 406, found);
  if (type_of(what.arguments) != type_of(there.declared.arguments))
    return refuse(at, 406, "inequivalent arg 'x-queue-type' for " + in_virtual_host("queue", what.queue));
  say_declared(at, there);
}

void broker_model::say_declared(const request& at, const queue_state& queue) {
  say(at, amqp::queue_declare_ok{queue.declared.queue, static_cast<std::uint32_t>(queue.ready.size()),
                                 static_cast<std::uint32_t>(queue.consumers.size())});
}

void broker_model::on(const request& at, const amqp::queue_purge& what) {
  if (!is_allowed(at, right::read, what.queue, "queue")) return;
  queue_state* const queue = find(at, what.queue);
  if (!queue || (queue->owner != 0 && !may_use(at, *queue, at.connection))) return;
  say(at, amqp::queue_purge_ok{static_cast<std::uint32_t>(queue->ready.size())});
  queue->ready.clear();
}

void broker_model::on(const request& at, const amqp::queue_delete& what) {
  if (!is_allowed(at, right::configure, what.queue, "queue")) return;
  const auto found = queues_.find(what.queue);
  if (found == queues_.end()) return say(at, amqp::queue_delete_ok{});
  queue_state& queue = found->second;
  if (queue.owner != 0 && !may_use(at, queue, at.connection)) return;
  expire(queue, at.now);
  const std::string name = in_virtual_host("queue", what.queue);
  if (what.if_unused && !queue.consumers.empty()) return refuse(at, 406, name + " in use");
  if (what.if_empty && !queue.ready.empty()) return refuse(at, 406, name + " is not empty");
  const auto count = static_cast<std::uint32_t>(queue.ready.size());
  remove_queue(what.queue);
  say(at, amqp::queue_delete_ok{count});
}

// The queue's consumers are told. Its messages that were not acknowledged are forgotten when they are.
void broker_model::remove_queue(const std::string& name) {
  const auto found = queues_.find(name);
  for (const consumer& each : found->second.consumers)
    answers_.push_back({each.connection, each.channel, amqp::basic_cancel{each.tag, true}});
  queues_.erase(found);
}

// --- Consumers.

void broker_model::on(const request& at, const amqp::basic_qos& what) {
  channel_of(at).prefetch = what.prefetch_count;
  say(at, amqp::basic_qos_ok{});
}

void broker_model::on(const request& at, const amqp::basic_consume& what) {
  if (!is_allowed(at, right::read, what.queue, "queue")) return;
  queue_state* const queue = find(at, what.queue);
  if (!queue || (queue->owner != 0 && !may_use(at, *queue, at.connection))) return;
  const std::string tag = what.consumer_tag.empty() ? "amq.ctag-" + std::to_string(++last_name_) : what.consumer_tag;
  const auto has_tag = [&](const consumer& each) {
    return each.connection == at.connection && each.channel == at.channel && each.tag == tag;
  };
  for (const auto& [name, each] : queues_)
    if (std::ranges::any_of(each.consumers, has_tag))
      return refuse_connection(at, 530, "attempt to reuse consumer tag '" + tag + "'");
  const bool has_exclusive = std::ranges::any_of(queue->consumers, &consumer::is_exclusive);
  if (has_exclusive || (what.exclusive && !queue->consumers.empty()))
    return refuse(at, 403, in_virtual_host("queue", what.queue) + " in exclusive use");
  queue->consumers.push_back({at.connection, at.channel, tag, what.no_ack, what.exclusive, channel_of(at).prefetch});
  say(at, amqp::basic_consume_ok{tag});
  deliver(*queue, at.now);
}

void broker_model::on(const request& at, const amqp::basic_cancel& what) {
  remove_consumers(at.connection, at.channel, &what.consumer_tag);
  say(at, amqp::basic_cancel_ok{what.consumer_tag});
}

// Removes all consumers of the channel if no tag is given.
void broker_model::remove_consumers(connection_id which, std::uint16_t channel, const std::string* tag) {
  std::vector<std::string> unused;
  for (auto& [name, queue] : queues_) {
    const auto removed = std::erase_if(queue.consumers, [&](const consumer& each) {
      return each.connection == which && each.channel == channel && (!tag || each.tag == *tag);
    });
    if (removed != 0 && queue.declared.auto_delete && queue.consumers.empty()) unused.push_back(name);
  }
  for (const std::string& each : unused) remove_queue(each);
}

void broker_model::deliver(queue_state& queue, time_point now) {
  expire(queue, now);
  deliver_ready(queue);
}

void broker_model::deliver_ready(queue_state& queue) {
  while (!queue.ready.empty()) {
    const auto next = std::ranges::find_if(queue.consumers, &consumer::has_room);
    if (next == queue.consumers.end()) return;
    consumer chosen = std::move(*next);
    queue.consumers.erase(next);
    const stored message = queue.ready.front();
    channel_state& to = connections_.at(chosen.connection).channels.at(chosen.channel);
    const std::uint64_t tag = hand_out(queue, to, chosen.tag, chosen.no_ack);
    if (!chosen.no_ack) ++chosen.unacknowledged;
    answers_.push_back({chosen.connection, chosen.channel,
                        amqp::basic_deliver{chosen.tag, tag, message.is_redelivered, message.message.exchange,
                                            message.message.routing_key},
                        message.message});
    queue.consumers.push_back(std::move(chosen));
  }
}

// Takes the first message from the queue. Returns its delivery tag.
std::uint64_t broker_model::hand_out(queue_state& from, channel_state& to, std::string_view consumer_tag, bool no_ack) {
  const std::uint64_t tag = ++to.last_tag;
  if (!no_ack) {
    to.unacknowledged.emplace(
        tag, delivered{from.declared.queue, from.id, std::string(consumer_tag), std::move(from.ready.front())});
    ++from.unacknowledged;
  }
  from.ready.pop_front();
  return tag;
}

// --- Messages.

void broker_model::on(const request& at, const amqp::basic_publish& what) {
  if (!what.exchange.empty()) return refuse(at, 404, "no " + in_virtual_host("exchange", what.exchange));
  if (!is_allowed(at, right::write, "amq.default", "exchange")) return;
  const std::string& expiration = at.content.properties.expiration;
  if (!expiration.empty() && !parse_expiration(expiration))
    return refuse(at, 406, "invalid expiration '" + expiration + "'");
  broker_message message = at.content;
  message.exchange = what.exchange;
  message.routing_key = what.routing_key;
  channel_state& channel = channel_of(at);
  if (channel.confirms) ++channel.published;
  const std::uint64_t number = channel.published;
  const bool confirms = channel.confirms;
  if (!route(message, at.now) && what.mandatory)
    say(at, amqp::basic_return{312, "NO_ROUTE", what.exchange, what.routing_key}, std::move(message));
  if (confirms) say(at, amqp::basic_ack{number});
}

// Returns false if there is no such queue.
bool broker_model::route(const broker_message& message, time_point now) {
  const auto found = queues_.find(message.routing_key);
  if (found == queues_.end()) return false;
  queue_state& queue = found->second;
  expire(queue, now);
  stored arrived{queue.next_position++, message};
  if (queue.declared.arguments.message_ttl)
    arrived.expires_at = now + std::chrono::milliseconds(*queue.declared.arguments.message_ttl);
  if (const auto expiration = parse_expiration(message.properties.expiration))
    arrived.expires_at = std::min(arrived.expires_at, now + *expiration);
  queue.ready.push_back(std::move(arrived));
  // If messages were waiting, no consumer has room. So a consumer gets this one before its time is over.
  deliver_ready(queue);
  expire(queue, now);
  drop_overflow(queue);
  return true;
}

// Only the first messages are looked at, as by a classic queue.
void broker_model::expire(queue_state& queue, time_point now) {
  while (!queue.ready.empty() && queue.ready.front().expires_at <= now) queue.ready.pop_front();
}

void broker_model::drop_overflow(queue_state& queue) {
  const auto& limits = queue.declared.arguments;
  std::size_t bytes = 0;
  for (const stored& each : queue.ready) bytes += each.message.body.size();
  const auto exceeds = [](std::size_t size, const std::optional<std::int64_t>& limit) {
    return limit && size > static_cast<std::uint64_t>(*limit);
  };
  while (!queue.ready.empty() &&
         (exceeds(queue.ready.size(), limits.max_length) || exceeds(bytes, limits.max_length_bytes))) {
    bytes -= queue.ready.front().message.body.size();
    queue.ready.pop_front();
  }
}

void broker_model::on(const request& at, const amqp::basic_get& what) {
  if (!is_allowed(at, right::read, what.queue, "queue")) return;
  queue_state* const queue = find(at, what.queue);
  if (!queue || (queue->owner != 0 && !may_use(at, *queue, at.connection))) return;
  if (queue->ready.empty()) return say(at, amqp::basic_get_empty{});
  stored message = queue->ready.front();
  const std::uint64_t tag = hand_out(*queue, channel_of(at), {}, what.no_ack);
  say(at,
      amqp::basic_get_ok{tag, message.is_redelivered, message.message.exchange, message.message.routing_key,
                         static_cast<std::uint32_t>(queue->ready.size())},
      std::move(message.message));
}

void broker_model::on(const request& at, const amqp::basic_ack& what) {
  settle(at, what.delivery_tag, what.multiple, false);
}

void broker_model::on(const request& at, const amqp::basic_nack& what) {
  settle(at, what.delivery_tag, what.multiple, what.requeue);
}

void broker_model::settle(const request& at, std::uint64_t tag, bool multiple, bool requeue) {
  auto& all = channel_of(at).unacknowledged;
  const auto end = multiple && tag == 0 ? all.end() : all.upper_bound(tag);
  auto first = all.begin();
  if (!multiple) first = all.find(tag);
  const bool is_unknown = !(multiple && tag == 0) && (first == all.end() || !all.contains(tag));
  if (is_unknown) return refuse(at, 406, "unknown delivery tag " + std::to_string(tag));
  std::vector<delivered> settled;
  for (auto each = first; each != end; ++each) settled.push_back(std::move(each->second));
  all.erase(first, end);
  for (auto each = settled.rbegin(); each != settled.rend(); ++each)
    release(at.connection, at.channel, std::move(*each), requeue, at.now);
}

// The message is acknowledged, or put back in its place.
void broker_model::release(connection_id from, std::uint16_t channel, delivered&& what, bool requeue, time_point now) {
  const auto found = queues_.find(what.queue);
  if (found == queues_.end() || found->second.id != what.queue_id) return;
  queue_state& queue = found->second;
  --queue.unacknowledged;
  for (consumer& each : queue.consumers)
    if (each.connection == from && each.channel == channel && each.tag == what.consumer_tag) --each.unacknowledged;
  if (requeue) {
    what.message.is_redelivered = true;
    const auto behind = std::ranges::upper_bound(queue.ready, what.message.position, {}, &stored::position);
    queue.ready.insert(behind, std::move(what.message));
  }
  deliver(queue, now);
  if (requeue) drop_overflow(queue);
}

void broker_model::on(const request& at, const amqp::confirm_select&) {
  channel_of(at).confirms = true;
  say(at, amqp::confirm_select_ok{});
}

}  // namespace holdfast::testing::detail

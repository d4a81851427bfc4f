// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "model.hpp"

#include <algorithm>
#include <iterator>
#include <regex>
#include <type_traits>
#include <variant>

// Users, connections, channels and accidents. model_queues.cpp has queues and messages.
namespace holdfast::testing::detail {
namespace {

constexpr std::size_t text_bytes_max = 255;

std::string_view name_of_code(std::uint16_t code) noexcept {
  switch (code) {
    case 320:
      return "CONNECTION_FORCED";
    case 403:
      return "ACCESS_REFUSED";
    case 404:
      return "NOT_FOUND";
    case 405:
      return "RESOURCE_LOCKED";
    case 406:
      return "PRECONDITION_FAILED";
    case 501:
      return "FRAME_ERROR";
    case 503:
      return "COMMAND_INVALID";
    case 504:
      return "CHANNEL_ERROR";
    case 505:
      return "UNEXPECTED_FRAME";
    case 530:
      return "NOT_ALLOWED";
    default:
      return "INTERNAL_ERROR";
  }
}

bool matches(const std::string& pattern, const std::string& name) {
  if (pattern == ".*") return true;
  return !pattern.empty() && std::regex_search(name, std::regex(pattern));
}

constexpr std::uint32_t queue_class = 50u << 16;
constexpr std::uint32_t basic_class = 60u << 16;

// The ids of the methods that can be refused.
std::uint32_t id_of(const amqp::method& what) noexcept {
  return std::visit(
      []<class Method>(const Method&) -> std::uint32_t {
        if constexpr (std::is_same_v<Method, amqp::queue_declare>) return queue_class | 10;
        if constexpr (std::is_same_v<Method, amqp::queue_purge>) return queue_class | 30;
        if constexpr (std::is_same_v<Method, amqp::queue_delete>) return queue_class | 40;
        if constexpr (std::is_same_v<Method, amqp::basic_consume>) return basic_class | 20;
        if constexpr (std::is_same_v<Method, amqp::basic_publish>) return basic_class | 40;
        if constexpr (std::is_same_v<Method, amqp::basic_get>) return basic_class | 70;
        if constexpr (std::is_same_v<Method, amqp::basic_ack>) return basic_class | 80;
        if constexpr (std::is_same_v<Method, amqp::basic_nack>) return basic_class | 120;
        return 0;
      },
      what);
}

}  // namespace

std::string refusal_text(std::uint16_t code, std::string_view text) {
  std::string whole(name_of_code(code));
  whole.append(" - ").append(text);
  if (whole.size() > text_bytes_max) whole.replace(text_bytes_max - 3, std::string::npos, "...");
  return whole;
}

broker_model::broker_model(std::string virtual_host) : virtual_host_(std::move(virtual_host)) {
  set_user("guest", "guest");
  set_rights("guest", {});
}

// --- Users.

void broker_model::set_user(const std::string& name, std::string password) {
  users_[name].password = std::move(password);
}

void broker_model::set_rights(const std::string& name, broker_rights rights) {
  users_[name].rights = std::move(rights);
}

void broker_model::delete_user(const std::string& name, time_point now) {
  users_.erase(name);
  const auto all = connections_;
  for (const auto& [id, each] : all)
    if (each.user == name) close(id, 320, "user '" + name + "' is deleted", now);
}

bool broker_model::is_password_right(const std::string& user, std::string_view password) const {
  const auto at = users_.find(user);
  return at != users_.end() && at->second.password == password;
}

std::string broker_model::refusal_to_open(const std::string& user, std::string_view virtual_host) const {
  if (virtual_host != virtual_host_) return "vhost " + std::string(virtual_host) + " not found";
  const auto at = users_.find(user);
  if (at != users_.end() && at->second.rights) return {};
  return "access to vhost '" + virtual_host_ + "' refused for user '" + user + "'";
}

bool broker_model::is_allowed(const request& at, right needed, const std::string& resource, std::string_view kind) {
  const std::string& name = connections_.at(at.connection).user;
  const auto user = users_.find(name);
  if (user != users_.end() && user->second.rights) {
    const broker_rights& rights = *user->second.rights;
    const std::string& pattern = needed == right::configure ? rights.configure
                                 : needed == right::write   ? rights.write
                                                            : rights.read;
    if (matches(pattern, resource)) return true;
  }
  refuse(at, 403, "access to " + in_virtual_host(kind, resource) + " refused for user '" + name + "'");
  return false;
}

// --- Connections.

broker_model::connection_id broker_model::connect(std::string user, std::string name) {
  const connection_id id = ++last_connection_;
  connections_.emplace(id, connection_state{std::move(user), std::move(name)});
  return id;
}

bool broker_model::is_blocked(connection_id which) const {
  const auto at = connections_.find(which);
  return at != connections_.end() && at->second.is_blocked;
}

void broker_model::receive(connection_id from, std::uint16_t channel, const amqp::method& what,
                           const broker_message& content, time_point now) {
  const auto at = connections_.find(from);
  if (at == connections_.end()) return;
  connection_state& connection = at->second;
  if (has_alarm_ && !connection.is_blocked && std::holds_alternative<amqp::basic_publish>(what)) {
    connection.is_blocked = true;
    answers_.push_back({from, 0, amqp::connection_blocked{"low on memory"}});
  }
  if (connection.is_blocked) {
    connection.kept.push_back({channel, what, content});
  } else {
    carry_out(from, {channel, what, content}, now);
  }
}

void broker_model::carry_out(connection_id from, const input& what, time_point now) {
  const auto connection = connections_.find(from);
  if (connection == connections_.end()) return;
  const request at{from, what.channel, now, what.content, id_of(what.what)};
  if (what.channel != 0 && !std::holds_alternative<amqp::channel_open>(what.what)) {
    auto& channels = connection->second.channels;
    const auto channel = channels.find(what.channel);
    if (channel == channels.end()) return refuse_connection(at, 504, "expected 'channel.open'");
    if (channel->second.is_closing) {
      const bool is_closed = std::holds_alternative<amqp::channel_close_ok>(what.what);
      if (std::holds_alternative<amqp::channel_close>(what.what)) say(at, amqp::channel_close_ok{});
      if (is_closed) channels.erase(channel);
      return;
    }
  }
  std::visit([&](const auto& method) { on(at, method); }, what.what);
}

void broker_model::end(connection_id which, time_point now) {
  const auto at = connections_.find(which);
  if (at == connections_.end()) return;
  std::vector<std::uint16_t> channels;
  for (const auto& [number, state] : at->second.channels) channels.push_back(number);
  for (const std::uint16_t each : channels) close_channel(which, each, now);
  connections_.erase(which);
  std::vector<std::string> own;
  for (const auto& [name, queue] : queues_)
    if (queue.owner == which) own.push_back(name);
  for (const std::string& each : own) remove_queue(each);
}

void broker_model::close(connection_id which, std::uint16_t code, std::string_view text, time_point now) {
  if (!is_open(which)) return;
  end(which, now);
  answers_.push_back({which, 0, amqp::connection_close{code, refusal_text(code, text)}});
}

void broker_model::on(const request& at, const amqp::connection_close&) {
  end(at.connection, at.now);
  say(at, amqp::connection_close_ok{});
}

void broker_model::on(const request& at, const amqp::channel_open&) {
  const bool is_new = connections_.at(at.connection).channels.try_emplace(at.channel).second;
  if (!is_new) return refuse_connection(at, 504, "second 'channel.open' seen");
  say(at, amqp::channel_open_ok{});
}

void broker_model::on(const request& at, const amqp::channel_close&) {
  close_channel(at.connection, at.channel, at.now);
  connections_.at(at.connection).channels.erase(at.channel);
  say(at, amqp::channel_close_ok{});
}

// Frees what the channel has. It stays known, because the client may not know yet that it is closed.
void broker_model::close_channel(connection_id which, std::uint16_t channel, time_point now) {
  remove_consumers(which, channel, nullptr);
  channel_state& closed = connections_.at(which).channels.at(channel);
  auto unacknowledged = std::exchange(closed.unacknowledged, {});
  // The last message first, so that each is put before those behind it.
  for (auto each = unacknowledged.rbegin(); each != unacknowledged.rend(); ++each)
    release(which, channel, std::move(each->second), true, now);
}

void broker_model::say(const request& at, amqp::method what, broker_message content) {
  answers_.push_back({at.connection, at.channel, std::move(what), std::move(content)});
}

void broker_model::refuse(const request& at, std::uint16_t code, std::string_view text) {
  close_channel(at.connection, at.channel, at.now);
  channel_of(at).is_closing = true;
  say(at, amqp::channel_close{code, refusal_text(code, text), static_cast<std::uint16_t>(at.method_id >> 16),
                              static_cast<std::uint16_t>(at.method_id & 0xFFFF)});
}

void broker_model::refuse_channel(connection_id which, std::uint16_t channel, std::uint16_t code, std::string_view text,
                                  time_point now) {
  const auto at = connections_.find(which);
  if (at == connections_.end() || !at->second.channels.contains(channel)) return;
  if (!at->second.channels.at(channel).is_closing) refuse({which, channel, now, {}, 0}, code, text);
}

void broker_model::refuse_connection(const request& at, std::uint16_t code, std::string_view text) {
  close(at.connection, code, text, at.now);
}

std::string broker_model::in_virtual_host(std::string_view kind, std::string_view name) const {
  std::string out(kind);
  return out.append(" '").append(name).append("' in vhost '").append(virtual_host_).append("'");
}

// --- Operators and accidents.

std::size_t broker_model::force_close(std::string_view name, std::string_view reason, time_point now) {
  std::vector<connection_id> found;
  for (const auto& [id, each] : connections_)
    if (each.name == name) found.push_back(id);
  for (const connection_id each : found) close(each, 320, reason, now);
  return found.size();
}

bool broker_model::force_close_owner(const std::string& queue, std::string_view reason, time_point now) {
  const auto at = queues_.find(queue);
  if (at == queues_.end() || at->second.owner == 0) return false;
  close(at->second.owner, 320, reason, now);
  return true;
}

bool broker_model::delete_queue(const std::string& name) {
  if (!queues_.contains(name)) return false;
  remove_queue(name);
  return true;
}

void broker_model::set_alarm(bool is_on, time_point now) {
  has_alarm_ = is_on;
  if (is_on) return;
  std::vector<connection_id> blocked;
  for (const auto& [id, each] : connections_)
    if (each.is_blocked) blocked.push_back(id);
  for (const connection_id each : blocked) {
    const auto at = connections_.find(each);
    if (at == connections_.end()) continue;
    at->second.is_blocked = false;
    answers_.push_back({each, 0, amqp::connection_unblocked{}});
    for (const input& kept : std::exchange(at->second.kept, {})) carry_out(each, kept, now);
  }
}

void broker_model::restart(bool clients_are_warned, time_point now) {
  std::vector<connection_id> all;
  all.reserve(connections_.size());
  for (const auto& [id, each] : connections_) all.push_back(id);
  for (const connection_id each : all) {
    if (clients_are_warned) {
      close(each, 320, "broker forced connection closure with reason 'shutdown'", now);
    } else {
      end(each, now);
    }
  }
  std::erase_if(queues_, [](const auto& each) { return !each.second.declared.durable; });
  for (auto& [name, queue] : queues_)
    std::erase_if(queue.ready, [](const stored& each) { return !each.message.properties.is_persistent; });
  has_alarm_ = false;
}

broker_queue broker_model::view_of(const queue_state& queue) const {
  broker_queue view{queue.declared.queue,  {}, queue.owner != 0, queue.ready.size(), queue.unacknowledged,
                    queue.consumers.size()};
  if (queue.owner != 0) view.owner = connections_.at(queue.owner).name;
  return view;
}

std::optional<broker_queue> broker_model::queue(const std::string& name, time_point now) {
  const auto at = queues_.find(name);
  if (at == queues_.end()) return std::nullopt;
  expire(at->second, now);
  return view_of(at->second);
}

std::vector<broker_queue> broker_model::queues(time_point now) {
  std::vector<broker_queue> all;
  for (auto& [name, queue] : queues_) {
    expire(queue, now);
    all.push_back(view_of(queue));
  }
  return all;
}

}  // namespace holdfast::testing::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/raw_amqp.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace holdfast::test {
namespace {

constexpr int deadline_ms = 60'000;
constexpr std::uint32_t frame_max = 131'072;
constexpr std::size_t body_max = 1'000'000;

void check(bool is_right, const char* what) {
  if (!is_right) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

amqp_request declare(std::string queue, amqp::queue_arguments arguments) {
  return {amqp::queue_declare{std::move(queue), false, true, false, false, std::move(arguments)}};
}
amqp_request declare_exclusive(std::string queue, amqp::queue_arguments arguments) {
  return {amqp::queue_declare{std::move(queue), false, false, true, false, std::move(arguments)}};
}
amqp_request passive(std::string queue) {
  return {amqp::queue_declare{std::move(queue), true, false, false, false, {}}};
}
amqp_request get(std::string queue) { return {amqp::basic_get{std::move(queue), true}}; }
amqp_request purge(std::string queue) { return {amqp::queue_purge{std::move(queue)}}; }
amqp_request remove(std::string queue) { return {amqp::queue_delete{std::move(queue)}}; }
amqp_request message(std::string queue, std::string body) {
  return {amqp::basic_publish{"", std::move(queue)}, std::move(body)};
}

amqp::queue_arguments length_0() {
  amqp::queue_arguments arguments;
  arguments.max_length = 0;
  arguments.queue_type = "classic";
  return arguments;
}
amqp::queue_arguments token_queue(std::int64_t lease_ms) {
  amqp::queue_arguments arguments;
  arguments.max_length = 1;
  arguments.max_length_bytes = lease_ms;
  arguments.queue_type = "classic";
  return arguments;
}

// --- The connection.

raw_amqp::raw_amqp(std::uint16_t port, const amqp_login& login)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  check(socket_ >= 0, "socket");
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  try {
    check(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "connect");
    handshake(login);
  } catch (...) {
    close();
    throw;
  }
}

void raw_amqp::handshake(const amqp_login& login) {
  send_bytes(amqp::protocol_header);
  const auto start = expect<amqp::connection_start>();
  std::string response;
  response.append(1, '\0').append(login.user).append(1, '\0').append(login.password);
  send({{amqp::connection_start_ok{{"test", "1", login.name}, "PLAIN", response, "en_US"}}}, 0);
  offer = expect<amqp::connection_tune>();
  send({{amqp::connection_tune_ok{offer.channel_max, frame_max, login.heartbeat}},
        {amqp::connection_open{login.virtual_host}}},
       0);
  frames_.set_limits({frame_max, amqp::frame_max_least, frame_max});
  expect<amqp::connection_open_ok>();
  open_channel(1);
}

void raw_amqp::open_channel(std::uint16_t channel) {
  send({{amqp::channel_open{}}}, channel);
  expect<amqp::channel_open_ok>();
}

void raw_amqp::close() noexcept {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

std::uint16_t raw_amqp::local_port() const {
  sockaddr_in here{};
  socklen_t size = sizeof here;
  check(::getsockname(socket_, reinterpret_cast<sockaddr*>(&here), &size) == 0, "getsockname");
  return ntohs(here.sin_port);
}

void raw_amqp::send_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    check(sent > 0, "send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void raw_amqp::send(const std::vector<amqp_request>& requests, std::uint16_t channel) {
  std::string bytes;
  for (const amqp_request& each : requests) {
    if (append_method(bytes, channel, each.what)) throw std::runtime_error("a method cannot be encoded");
    if (has_content(each.what)) amqp::append_content(bytes, channel, {each.expiration, false}, each.body, frame_max);
  }
  send_bytes(bytes);
}

void raw_amqp::receive() {
  pollfd waiting{socket_, POLLIN, 0};
  if (::poll(&waiting, 1, deadline_ms) == 0) throw std::runtime_error("the broker does not answer");
  std::array<char, 65536> buffer;
  const ssize_t size = ::recv(socket_, buffer.data(), buffer.size(), 0);
  if (size <= 0) throw amqp_closed(0, "the connection has ended");
  received_.append(buffer.data(), static_cast<std::size_t>(size));
}

// Returns false if more bytes are needed.
bool raw_amqp::next_frame(amqp::frame& out) {
  std::string_view rest = received_;
  std::optional<amqp::frame> found;
  if (frames_.read(rest, found)) throw std::runtime_error("a malformed frame: " + std::string(frames_.cause()));
  received_.erase(0, received_.size() - rest.size());
  if (!found) return false;
  out = *found;
  return true;
}

amqp::method raw_amqp::read() {
  for (;;) {
    amqp::frame found;
    while (!next_frame(found)) receive();
    if (found.type == amqp::frame_type::heartbeat) continue;
    amqp::method what;
    std::string_view cause;
    if (decode_method(found, amqp::decoder::client_before_tune_ok, what, cause))
      throw std::runtime_error("a malformed answer: " + std::string(cause));
    if (has_content(what)) read_content();
    if (const auto* closed = std::get_if<amqp::connection_close>(&what))
      throw amqp_closed(closed->reply_code, closed->reply_text);
    const bool is_blocking = std::holds_alternative<amqp::connection_blocked>(what);
    if (!is_blocking && !std::holds_alternative<amqp::connection_unblocked>(what)) return what;
    is_blocked = is_blocking;
    if (is_blocking) return what;
  }
}

void raw_amqp::read_content() {
  amqp::content_reader reader(body_max);
  amqp::frame part;
  std::string_view cause;
  do {
    while (!next_frame(part)) receive();
    if (reader.take(part, cause)) throw std::runtime_error("a malformed message: " + std::string(cause));
  } while (!reader.is_complete());
  body = reader.body();
}

void raw_amqp::await_blocked() {
  while (!is_blocked) read();
}

std::uint16_t raw_amqp::code_of_end() {
  try {
    for (;;) read();
  } catch (const amqp_closed& closed) {
    text = closed.what();
    return closed.code;
  }
}

std::string raw_amqp::answer_to(amqp::method&& found, std::uint16_t channel) {
  if (const auto* refused = std::get_if<amqp::channel_close>(&found)) {
    text = refused->reply_text;
    send({{amqp::channel_close_ok{}}}, channel);
    open_channel(channel);
    return std::to_string(refused->reply_code);
  }
  if (const auto* declared = std::get_if<amqp::queue_declare_ok>(&found))
    count[declared->queue] = declared->message_count;
  if (std::holds_alternative<amqp::basic_get_ok>(found)) return body;
  return std::holds_alternative<amqp::basic_get_empty>(found) ? "empty" : "ok";
}

std::vector<std::string> raw_amqp::ask(const std::vector<amqp_request>& requests, std::uint16_t channel) {
  send(requests, channel);
  std::vector<std::string> answers;
  for (const amqp_request& each : requests) {
    if (has_content(each.what)) continue;
    amqp::method found = read();
    const bool is_refused = std::holds_alternative<amqp::channel_close>(found);
    answers.push_back(answer_to(std::move(found), channel));
    if (is_refused) break;
  }
  return answers;
}

std::vector<bool> raw_amqp::probe(const std::vector<std::string>& queues) {
  constexpr std::uint16_t channel = 2;
  if (!std::exchange(has_confirms_, true)) {
    open_channel(channel);
    send({{amqp::confirm_select{}}}, channel);
    expect<amqp::confirm_select_ok>();
  }
  std::vector<amqp_request> probes;
  std::set<std::uint64_t> unconfirmed;
  for (const std::string& each : queues) {
    probes.push_back({amqp::basic_publish{"", each, true}, "", "0"});
    unconfirmed.insert(++published_);
  }
  send(probes, channel);
  std::set<std::string> missing;
  while (!unconfirmed.empty()) {
    const amqp::method found = read();
    if (const auto* returned = std::get_if<amqp::basic_return>(&found)) {
      missing.insert(returned->routing_key);
      continue;
    }
    const auto& confirmed = std::get<amqp::basic_ack>(found);
    const auto last = unconfirmed.upper_bound(confirmed.delivery_tag);
    unconfirmed.erase(confirmed.multiple ? unconfirmed.begin() : std::prev(last), last);
  }
  std::vector<bool> exist;
  for (const std::string& each : queues) exist.push_back(!missing.contains(each));
  return exist;
}

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/raw_http.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace holdfast::test {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void fail(int error, const char* what) { throw std::system_error(error, std::generic_category(), what); }

bool poll_once(const socket_handle& s, short events, milliseconds time) {
  pollfd p{s.get(), events, 0};
  const int n = ::poll(&p, 1, static_cast<int>(time.count()));
  if (n < 0 && errno != EINTR) fail(errno, "poll");
  return n > 0;
}

void wait_for(const socket_handle& s, short events, raw_request::clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - raw_request::clock::now());
    if (left <= milliseconds(0)) throw std::runtime_error("no complete reply in time");
    if (poll_once(s, events, left)) return;
  }
}

raw_reply parse_reply(const std::string& text) {
  const auto head_end = text.find("\r\n\r\n");
  if (head_end == std::string::npos || text.compare(0, 5, "HTTP/") != 0)
    throw std::runtime_error("not a complete HTTP reply: \"" + text.substr(0, 200) + '"');
  raw_reply reply;
  reply.status = std::stoi(text.substr(text.find(' ') + 1));
  reply.body = text.substr(head_end + 4);
  for (auto at = text.find("\r\n") + 2; at < head_end + 2;) {
    const auto line_end = text.find("\r\n", at);
    const auto colon = text.find(':', at);
    if (colon < line_end) {
      auto name = text.substr(at, colon - at);
      for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      const auto value = text.find_first_not_of(' ', colon + 1);
      reply.headers[name] = text.substr(value, line_end - value);
    }
    at = line_end + 2;
  }
  return reply;
}

bool is_complete(const std::string& text) {
  if (text.find("\r\n\r\n") == std::string::npos) return false;
  const auto reply = parse_reply(text);
  const auto length = reply.headers.find("content-length");
  return length != reply.headers.end() && std::to_string(reply.body.size()) == length->second;
}

}  // namespace

socket_handle::socket_handle(int fd) : fd_(fd) {
  if (fd < 0) fail(errno, "socket");
}

socket_handle::socket_handle(socket_handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

socket_handle::~socket_handle() {
  if (fd_ >= 0) ::close(fd_);
}

sockaddr_in socket_address(const std::string& host, std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &a.sin_addr) != 1) throw std::invalid_argument("not an IPv4 address: " + host);
  return a;
}

// HTTP/1.0, so that the reply's body ends with the connection and has no chunks.
raw_request::raw_request(const std::string& host, std::uint16_t port, std::string_view method, std::string_view target,
                         std::string_view body, clock::time_point end)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  std::string message;
  message.append(method).append(" ").append(target).append(" HTTP/1.0\r\nHost: ").append(host);
  message.append(":").append(std::to_string(port));
  message.append("\r\nContent-Length: ").append(std::to_string(body.size())).append("\r\n\r\n").append(body);
  connect(host, port, end);
  send(message, end);
}

void raw_request::connect(const std::string& host, std::uint16_t port, clock::time_point end) {
  const auto a = socket_address(host, port);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0) return;
  if (errno != EINPROGRESS) fail(errno, "connect");
  wait_for(socket_, POLLOUT, end);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error) fail(error, "connect");
}

void raw_request::send(std::string_view message, clock::time_point end) {
  while (!message.empty()) {
    const auto n = ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL);
    if (n >= 0)
      message.remove_prefix(static_cast<std::size_t>(n));
    else if (errno == EAGAIN)
      wait_for(socket_, POLLOUT, end);
    else if (errno == EPIPE || errno == ECONNRESET)
      return;  // a server may answer a large request before it has read it
    else if (errno != EINTR)
      fail(errno, "send");
  }
}

bool raw_request::answered_within(milliseconds time) const { return poll_once(socket_, POLLIN, time); }

raw_reply raw_request::reply(clock::time_point end) {
  std::string text;
  char buffer[16384];
  for (;;) {
    const auto n = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (n > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    else if (n == 0 || (errno == ECONNRESET && is_complete(text)))
      return parse_reply(text);  // a server that has not read the whole request resets the connection
    else if (errno == EAGAIN)
      wait_for(socket_, POLLIN, end);
    else if (errno != EINTR)
      fail(errno, "recv");
  }
}

}  // namespace holdfast::test

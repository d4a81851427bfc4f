// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

struct sockaddr_in;

// HTTP for tests. It uses blocking sockets with deadlines, and no code of the library under test.
namespace holdfast::test {

struct raw_reply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

class socket_handle {
public:
  explicit socket_handle(int fd);  ///< throws std::system_error if that is -1
  socket_handle(const socket_handle&) = delete;
  socket_handle& operator=(const socket_handle&) = delete;
  socket_handle(socket_handle&& other) noexcept;
  ~socket_handle();
  int get() const { return fd_; }

private:
  int fd_;
};

sockaddr_in socket_address(const std::string& host, std::uint16_t port);

/// One request on a connection of its own. It has been sent when the constructor returns, unless the
/// server has closed the connection before. The constructor and `reply`
/// throw std::runtime_error if they are not done at `end`.
class raw_request {
public:
  using clock = std::chrono::steady_clock;

  /// `target` begins with "/v1/".
  raw_request(const std::string& host, std::uint16_t port, std::string_view method, std::string_view target,
              std::string_view body, clock::time_point end);
  /// Returns true if a reply or the end of the connection arrives within `time`.
  bool answered_within(std::chrono::milliseconds time) const;
  raw_reply reply(clock::time_point end);
  int socket() const { return socket_.get(); }

private:
  void connect(const std::string& host, std::uint16_t port, clock::time_point end);
  void send(std::string_view message, clock::time_point end);

  socket_handle socket_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/sockets.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/error.hpp>
#include <boost/asio/socket_base.hpp>
#include <cerrno>
#include <cstddef>

namespace holdfast::platform {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// An integer TCP option in the form that Asio's set_option takes.
class tcp_option {
public:
  constexpr tcp_option(int name, int value) noexcept : name_(name), value_(value) {}
  template <class Protocol>
  int level(const Protocol&) const noexcept {
    return IPPROTO_TCP;
  }
  template <class Protocol>
  int name(const Protocol&) const noexcept {
    return name_;
  }
  template <class Protocol>
  const void* data(const Protocol&) const noexcept {
    return &value_;
  }
  template <class Protocol>
  std::size_t size(const Protocol&) const noexcept {
    return sizeof(value_);
  }

private:
  int name_;
  int value_;
};

}  // namespace

// Asio's own open() does not set SOCK_CLOEXEC.
error_code open(stream_socket& socket, const asio::generic::stream_protocol& protocol) {
  const int fd = ::socket(protocol.family(), protocol.type() | SOCK_CLOEXEC, protocol.protocol());
  if (fd < 0) return {errno, asio::error::get_system_category()};
  error_code ec;
  socket.assign(protocol, fd, ec);
  if (ec) ::close(fd);
  return ec;
}

void notice_dead_peer(stream_socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(tcp_option(TCP_KEEPIDLE, 5), ignored);
  socket.set_option(tcp_option(TCP_KEEPINTVL, 2), ignored);
  socket.set_option(tcp_option(TCP_KEEPCNT, 3), ignored);
  // The same time limit for a request that was written and is not acknowledged, because then TCP sends no keepalive
  // probes.
  socket.set_option(tcp_option(TCP_USER_TIMEOUT, 11'000), ignored);
}

}  // namespace holdfast::platform

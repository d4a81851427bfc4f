// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/sockets.hpp"

#include <boost/asio/socket_base.hpp>

namespace holdfast::platform {

namespace asio = boost::asio;
using boost::system::error_code;

error_code open(stream_socket& socket, const asio::generic::stream_protocol& protocol) {
  error_code ec;
  socket.open(protocol, ec);
  return ec;
}

void notice_dead_peer(stream_socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
}

}  // namespace holdfast::platform

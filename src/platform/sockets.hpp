// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <holdfast/detail/export.hpp>

#include "platform/strand.hpp"

namespace holdfast::platform {

using stream_socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, strand_type>;

/// Opens a socket that programs which this process starts do not inherit. They would keep the connection open.
/// Portable version: such programs may inherit it.
HOLDFAST_INTERNAL boost::system::error_code open(stream_socket& socket,
                                                 const boost::asio::generic::stream_protocol& protocol);

/// If the network drops all packets, the pending operations of this connected TCP socket fail after about 11 s, also a
/// read during which nothing is sent. Errors are ignored: requests then end at their own deadlines. A UNIX socket does
/// not have these options.
/// Portable version: the system's own time limits for keepalive probes are used, which are often two hours. A write
/// that is not acknowledged has the system's own time limit, too.
void notice_dead_peer(stream_socket& socket);

}  // namespace holdfast::platform

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <vector>

#include "net/address.hpp"
#include "net/asio.hpp"

namespace holdfast::net {

/// The endpoints of a host, of TCP or of a UNIX socket.
using endpoint_list = std::vector<asio::generic::stream_protocol::endpoint>;

struct resolution {
  error_code error;  ///< the resolver's error, or asio::error::timed_out after the deadline
  endpoint_list endpoints;
};

/// Completes with the endpoints of an address, with the resolver's error, or with asio::error::timed_out at the
/// deadline. A UNIX socket or an IP literal resolves at once. A name is resolved by the system's resolver. That may
/// block a thread of Asio far beyond the deadline, and its late answer is dropped.
HOLDFAST_INTERNAL awaitable<resolution> resolve(const strand_type& strand, const address& where, time_point deadline);

}  // namespace holdfast::net

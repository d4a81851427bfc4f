// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <holdfast/consul/client.hpp>
#include <string>

namespace holdfast::cli {

/// Shows holders, queue and rates, and keeps them current, until it is interrupted or a read fails. On a terminal it
/// uses the whole window. Otherwise it prints one line at first, and one whenever a read shows another limit, another
/// queue, other holders, or a change of `closed` or of a revocation. Changes between two reads share a line.
boost::asio::awaitable<void> top(consul::client& consul, std::string prefix);

}  // namespace holdfast::cli

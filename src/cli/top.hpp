// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <holdfast/consul/client.hpp>
#include <string>

namespace holdfast::cli {

/// Shows holders, queue and rates, and keeps them current, until it is interrupted. On a terminal it uses the whole
/// window. Otherwise it prints one line for each change.
boost::asio::awaitable<void> top(consul::client& consul, std::string prefix);

}  // namespace holdfast::cli

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

#include "net/address.hpp"

// Boost.URL is not used. It is one more compiled library to install and link. It also accepts authorities that Consul's
// tools do not accept: user names, and percent signs in hosts.
namespace holdfast::consul::detail {

enum class scheme { http, https };

/// The address that an agent listens on.
struct agent_address : net::address {
  detail::scheme scheme = detail::scheme::http;
  std::string path{};  ///< put before the path of every request, for example "/consul" on a shared HTTP server

  /// Returns a text for messages: `host:port` and the path, with brackets around an IPv6 literal, or `unix://path`.
  std::string to_string() const;
  bool operator==(const agent_address&) const = default;
};

/// Parses `host`, `host:port`, `[v6]` or `[v6]:port` (default port 8500), or `unix://path`. A host may follow
/// `http://` or `https://` (default port 8501). Then a path may follow it. Any other scheme is
/// error::unsupported_scheme, and any other text error::invalid_address.
HOLDFAST_INTERNAL error_code parse_address(std::string_view text, agent_address& out);

/// Percent-encodes a KV key: as `net::append_encoded`, but slashes are kept, because they are part of the path.
void append_encoded_key(std::string& out, std::string_view key);

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <string_view>

#include "consul/encoding/url.hpp"

// Proxies that forward requests (RFC 9110, sections 3.7 and 9.3.6), and the environment variables that name them.
namespace holdfast::consul::detail {

/// Returns `Basic ` and the base64 of `user:password`. If there is no colon, the password is empty.
std::string basic_credentials(std::string_view user_and_password);

struct proxy_address {
  agent_address at{};
  std::string credentials{};  ///< the value of Proxy-Authorization; empty: none
  std::string login{};        ///< the same as plain text: `user:password`, or `user` alone
};

/// Parses `http://[user[:password]@]host[:port]`. The default port is 80, and the scheme may be left out. The user and
/// the password are percent-decoded. Errors: unsupported_scheme, invalid_address.
error_code parse_proxy(std::string_view text, proxy_address& out);

/// Returns true if NO_PROXY's list names the host. The list is read as Go reads it. An entry is one of:
///
/// - a domain, which includes its subdomains, or only the subdomains (`.domain`, `*.domain`);
/// - an IP address, or a network (`10.0.0.0/8`);
/// - `*`, which names every host.
///
/// A domain or an IP address may have a port. Then it names the host only for that port. The final dot of a name and
/// the zone of an IP address do not count.
bool is_excepted(const agent_address& to, std::string_view list);

/// Returns the proxy for an agent according to HTTP_PROXY or HTTPS_PROXY, and NO_PROXY. The variables may also be in
/// lower case. Empty if there is no proxy, and always for a loopback address, `localhost` or a UNIX socket. For any
/// other agent, throws `system_error`: invalid_option if its scheme is `http` and the program is a CGI program in which
/// HTTP_PROXY or http_proxy is set. There the client of the web server can set HTTP_PROXY.
std::string proxy_from_environment(const agent_address& to);

}  // namespace holdfast::consul::detail

#pragma once

#include <string>
#include <string_view>

#include "url.hpp"

// Proxies that forward requests (RFC 9110, sections 3.7 and 9.3.6), and what tells which.
namespace holdfast::consul::detail {

/// Base64 of `user:password`, behind the scheme's name. A user alone has an empty password.
std::string basic_credentials(std::string_view user_and_password);

struct proxy_address {
  agent_address at{};
  std::string credentials{};  ///< for Proxy-Authorization; empty: none
  std::string login{};        ///< the same as `user:password`
};

/// `http://[user:password@]host[:port]`, without a port 80, or without the scheme. Errors: unsupported_scheme,
/// invalid_address.
error_code parse_proxy(std::string_view text, proxy_address& out);

/// Whether NO_PROXY's list, as Go reads it, names the host: a domain and what is below it, only what is below
/// (`.domain`, `*.domain`), an IP address, a network (`10.0.0.0/8`), each also with a port; or `*`.
bool is_excepted(const agent_address& to, std::string_view list);

/// The proxy that HTTP_PROXY or HTTPS_PROXY and NO_PROXY, in capitals or not, give an agent; empty: none. A loopback
/// address has none. Throws `system_error`: invalid_option, where a web server runs us (CGI) and HTTP_PROXY may be its
/// client's.
std::string proxy_from_environment(const agent_address& to);

}  // namespace holdfast::consul::detail

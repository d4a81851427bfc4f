#pragma once

#include <cstdint>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>

// Not Boost.URL: that is one more compiled library to install and to link, and takes for an authority what no tool of
// Consul's takes: user names, and percent signs in hosts.
namespace holdfast::consul::detail {

enum class scheme { http, https, unix_socket };

/// Where the agent listens.
struct agent_address {
  std::string host{};  ///< a name or an IP literal, without brackets; or the path of a UNIX socket
  std::uint16_t port = 8500;
  detail::scheme scheme = detail::scheme::http;
  std::string path{};  ///< what the paths of all requests stand below, where a proxy shares its address: "/consul", say

  /// `host:port` and the path, with brackets around an IPv6 literal, or `unix://path`: for messages.
  std::string to_string() const;
  /// For the Host header.
  std::string authority() const;
  bool operator==(const agent_address&) const = default;
};

/// Accepts `host`, `host:port`, `[v6]`, `[v6]:port`, each also after `http://` or `https://` (port 8501) and then
/// before a path; and `unix://path`. Any other scheme is error::unsupported_scheme, anything else
/// error::invalid_address.
error_code parse_address(std::string_view text, agent_address& out);

/// The name or IP address that a certificate has to be for, from the host of an address or from `tls.server_name`:
/// without brackets, without a zone and without the final dot. Empty if it is none. A name that begins with a dot is
/// none, because OpenSSL would accept any subdomain for it.
std::string certificate_name(std::string_view host);

/// Percent-encodes one query value or path segment: all but the unreserved characters of RFC 3986.
void append_encoded(std::string& out, std::string_view text);

/// The same for a KV key, whose slashes are part of the path.
void append_encoded_key(std::string& out, std::string_view key);

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <string>
#include <string_view>

namespace holdfast::net {

/// Where a server listens.
struct address {
  std::string host{};  ///< a name or an IP literal, without brackets; or the path of a UNIX socket
  std::uint16_t port = 0;
  bool is_path = false;  ///< `host` is the path of a UNIX socket

  /// Returns `host:port`, with brackets around an IPv6 literal. For a UNIX socket, returns `localhost`.
  HOLDFAST_INTERNAL std::string authority() const;
  /// Returns the same without the zone of an IPv6 address, which has a meaning on this machine only. So a request says
  /// this (RFC 6874, section 3).
  std::string authority_without_zone() const;
  bool operator==(const address&) const = default;
};

/// Parses `host` or `host:port`, with brackets around an IPv6 literal. Without a port, leaves `out.port` as it is. The
/// percent sign before a zone may be written as `%25`, as a URI has it: `%251` is the zone 1. Returns false, and does
/// not change `out`, if the text has another form.
HOLDFAST_INTERNAL bool parse_authority(std::string_view text, address& out);

/// Compares the scheme of a URI, of which the case does not matter. `lower` must be in lower case.
HOLDFAST_INTERNAL bool is_scheme(std::string_view text, std::string_view lower) noexcept;

/// Returns the path of a UNIX socket as an address. Its host is empty if the text cannot be such a path.
address path_address(std::string_view path);

/// Returns the name or IP address that a certificate must be for. `host` is the host of an address or
/// `tls.server_name`. Brackets, a zone and a final dot are removed. Returns an empty string if `host` is neither a name
/// nor an IP address. A name that begins with a dot is not accepted, because OpenSSL would accept any subdomain for it.
HOLDFAST_INTERNAL std::string certificate_name(std::string_view host);

}  // namespace holdfast::net

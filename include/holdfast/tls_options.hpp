// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <memory>
#include <string>

namespace boost::asio::ssl {

class context;

}  // namespace boost::asio::ssl

namespace holdfast {

/// TLS settings for `https://` addresses. The client speaks TLS 1.2 or later. By default, the agent's certificate must
/// be signed by one of the system's authorities, and must be for the host in the address.
///
/// Files are in PEM format. The client's constructor reads them, and a new connection reads them again if they have
/// changed. If the changed files cannot be used, that is logged, and the old certificates stay in use.
struct tls_options {
  /// A file with the certificate authorities to trust. Empty: the system's.
  std::string ca_file{};
  /// A folder with files of certificate authorities to trust. All files in it and in its subfolders are read. Ignored
  /// if `ca_file` is set.
  std::string ca_path{};
  /// The client's certificate, followed by its intermediate certificates. Needed if the agent verifies its clients
  /// (Consul's option `verify_incoming`). Requires `key_file`.
  std::string certificate_file{};
  /// The private key of `certificate_file`. It must not be encrypted.
  std::string key_file{};
  /// The name or IP address that the agent's certificate must be for, for example `server.dc1.consul`. A name is also
  /// sent in the handshake (SNI). Empty: the host in the address.
  std::string server_name{};
  /// If true, the agent's certificate is not verified, and no authorities are loaded. The client then sends its token
  /// to any server that answers at the address. Use it only in tests. The client logs it once.
  bool insecure_skip_verify = false;
  /// An application's own TLS context (<boost/asio/ssl/context.hpp>), in place of the files: together with one of them,
  /// it is refused with error::invalid_option. Certificates and names are verified as without it: the client sets its
  /// own verify callback on each connection. The least version of TLS is 1.2, or a later one if the context requires
  /// that.
  std::shared_ptr<boost::asio::ssl::context> context{};
};

}  // namespace holdfast

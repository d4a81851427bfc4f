// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <functional>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/tls_options.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "net/address.hpp"
#include "net/asio.hpp"

// TLS for connections. A library that was built without it (HOLDFAST_TLS=OFF) makes no `tls_client`.
namespace holdfast::net {

using socket_type = asio::basic_stream_socket<asio::generic::stream_protocol, strand_type>;

struct transferred {
  error_code error;
  std::size_t bytes = 0;
};

/// The result of a handshake.
struct tls_failure {
  error_code error;       ///< an error of this library; not set if the handshake has succeeded
  error_code cause;       ///< the error of OpenSSL or of the socket behind it
  std::string message{};  ///< why the agent's certificate or our settings were refused; otherwise empty
};

/// A TLS stream over a connected socket. The socket must outlive the stream. After the handshake, at most one read and
/// one write may be pending. Closing the socket cancels them.
class HOLDFAST_INTERNAL tls_stream {
public:
  virtual ~tls_stream() = default;

  /// Completes when the handshake has succeeded or failed. Errors: certificate_refused, client_certificate_refused,
  /// unreachable.
  virtual awaitable<tls_failure> handshake() = 0;
  /// Writes all bytes, or fails. After an error, it is unknown how many of them the agent has received.
  virtual awaitable<transferred> write(asio::const_buffer bytes) = 0;
  /// Reads some bytes. Fails with asio::error::eof only if the agent has ended the TLS stream properly. Fails with
  /// client_certificate_refused if the agent refuses our certificate after the handshake: then it has not read anything
  /// that was written.
  virtual awaitable<transferred> read_some(asio::mutable_buffer space) = 0;
  /// To be called when the agent has answered. The first call keeps the TLS session, so that later connections to this
  /// agent can resume it. With TLS 1.3, only one of them can.
  virtual void keep_session() = 0;
  /// Returns true if this stream holds no unread bytes. The socket may still have some.
  virtual bool is_quiet() const noexcept = 0;
};

/// The TLS state that all connections of a client share: the certificates, and the sessions that can be resumed. If the
/// files of the certificates have changed, `open` reads them again. Lives on the strand.
class HOLDFAST_INTERNAL tls_client {
public:
  virtual ~tls_client() = default;
  virtual std::unique_ptr<tls_stream> open(socket_type& below, const address& to) = 0;
};

/// Reads the files that the options name. With `insecure_skip_verify`, the authorities are not loaded. With TLS in the
/// library, the files are read even if no address is `https` (`is_needed` is false), so that a wrong file is found
/// early. Returns null if TLS is not needed and no file is named, or if TLS is not needed and the library was built
/// without it. Throws `system_error`: invalid_option, which names the option and the file, or the system's certificate
/// authorities; unsupported_scheme if TLS is needed and the library was built without it. `log` may not be empty.
HOLDFAST_INTERNAL std::unique_ptr<tls_client> make_tls_client(const tls_options& options,
                                                              std::function<void(log_event&&)> log, bool is_needed);

}  // namespace holdfast::net

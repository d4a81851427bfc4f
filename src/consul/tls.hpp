#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <cstddef>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <string>

#include "net.hpp"
#include "url.hpp"

// What connections need of TLS. Without it (the build option HOLDFAST_TLS) there is no client to be made.
namespace holdfast::consul::detail {

using socket_type = asio::basic_stream_socket<asio::generic::stream_protocol, strand_type>;

struct transferred {
  error_code error;
  std::size_t bytes = 0;
};

/// Why a handshake has failed.
struct tls_failure {
  error_code error;       ///< ours; none: it has not failed
  error_code cause;       ///< OpenSSL's, or the socket's
  std::string message{};  ///< what was expected and what came, if that is the reason
};

/// TLS over one socket, which is connected, and which it outlives not. For one operation at a time. To close the socket
/// ends what is under way.
class tls_stream {
public:
  virtual ~tls_stream() = default;

  /// Errors: certificate_refused, client_certificate_refused, unreachable.
  virtual awaitable<tls_failure> handshake() = 0;
  /// All of them, or an error: then nobody knows how much the agent has got.
  virtual awaitable<transferred> write(asio::const_buffer bytes) = 0;
  /// asio::error::eof only where the agent has said that this is the end. client_certificate_refused: it has not read
  /// what was written.
  virtual awaitable<transferred> read_some(asio::mutable_buffer space) = 0;
  /// The agent has answered: what it has sent to resume with serves the next connections.
  virtual void keep_session() = 0;
  /// Whether nothing that the agent has sent is still unread in this stream. The socket may have more.
  virtual bool is_quiet() const noexcept = 0;
};

/// What a client's TLS connections have in common: the certificates, read again when their files have changed, and the
/// sessions that can be resumed. Lives on the strand.
class tls_client {
public:
  virtual ~tls_client() = default;
  virtual std::unique_ptr<tls_stream> open(socket_type& below, const agent_address& to) = 0;
};

/// Reads the files that the options name, also where no address is `https` (`is_needed`): a wrong one is found sooner.
/// Throws `system_error`: invalid_option, with the option and the file; unsupported_scheme if TLS is needed, and the
/// library was built without it.
std::unique_ptr<tls_client> make_tls_client(const config& settings, bool is_needed);

}  // namespace holdfast::consul::detail

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace boost::asio::ssl {

class context;

}  // namespace boost::asio::ssl

namespace holdfast::consul {

/// How to speak TLS to an `https://` address: 1.2 at least, and by default the agent's certificate has to be signed by
/// one of the system's authorities, and to be for the host in the address. Files are PEM. They are read by the client's
/// constructor, and again by new connections when they have changed; what cannot be used then is logged, and the old
/// ones stay in use.
struct tls_options {
  /// The authorities that are trusted in the place of the system's.
  std::string ca_file{};
  /// A folder with such files, whatever they are called, and whatever is in its folders. Not looked at beside
  /// `ca_file`.
  std::string ca_path{};
  /// What the agent knows us by, where it wants that (`verify_incoming`): a certificate, with what is needed to verify
  /// it, and its key. Both or none. The key must not be encrypted.
  std::string certificate_file{};
  std::string key_file{};
  /// The name or IP address that the certificate has to be for, instead of the address's host: `server.dc1.consul`, for
  /// example. A name is also sent (SNI).
  std::string server_name{};
  /// Whoever answers is believed to be the agent, and is told the token. Only for tests. Logged once.
  bool insecure_skip_verify = false;
  /// A context of the application's own, in the place of all files: <boost/asio/ssl/context.hpp>. Certificates and
  /// names are verified all the same, by a callback of ours in the place of the context's. TLS 1.2 is the least, unless
  /// the context asks for more.
  std::shared_ptr<boost::asio::ssl::context> context{};
};

/// How to reach the agent. Checked once, by the client's constructor.
struct config {
  /// `host:port`, `http://host:port` or `host` (port 8500); `https://host:port` (8501); `unix://PATH` for the socket of
  /// an agent on this host. A path behind `http://` or `https://host:port` is what all requests' paths stand below,
  /// where an HTTP server passes them on.
  std::string address = "127.0.0.1:8500";
  /// Several, in the place of `address`: all of one cluster, or indexes and sessions mean nothing. The first that works
  /// is asked, and goes on being asked; when it cannot be reached, or says nothing for a second while another one does,
  /// requests go to the next. A minute later the first is tried again. At most 16.
  std::vector<std::string> addresses{};
  /// A proxy that passes requests on to any of them, `http://[user:password@]host[:port]` (port 80); it is asked for a
  /// tunnel (CONNECT) to an `https://` address. Empty: none. A UNIX socket has none.
  std::string proxy{};

  /// ACL token, sent with every request as X-Consul-Token; printable ASCII without spaces; empty: none. Never logged.
  std::string token{};
  /// A file with the token, in the place of `token` unless it is empty. It is read by the client's constructor, again
  /// within a second when it has changed, and when Consul refuses the token: then the request is sent once more with
  /// the new one. If the new token cannot be sent, or the file has become empty, that is logged (not the token), and the
  /// last one stays in use.
  std::string token_file{};
  /// Says which token is in force, in the place of both. Called by the client's constructor, then on the client's
  /// strand before each request and when Consul has refused the token: it must not wait for anything, and may throw,
  /// which is as with the file.
  std::function<std::string()> token_function{};
  /// `user:password`, for an HTTP server before the agent (Authorization: Basic); empty: none. Never logged.
  std::string http_auth{};
  /// The datacenter that all requests are for, locks and sessions included; the agent forwards them to a server there.
  /// Empty: the agent's own. doc/reference/consul.md says which agents can do that.
  std::string datacenter{};
  /// Of Consul Enterprise, for keys and sessions; empty: the token's own. Without Enterprise Consul refuses them from
  /// 1.11 on; before that it ignores the partition, and keys are made in the one there is.
  std::string consul_namespace{};
  std::string partition{};

  tls_options tls{};

  /// Default time for one operation, connecting and retries included. 1 ms to 10 min. Too short gives unknown outcomes
  /// under load; far over 30 s, requests to a leader that froze are waited for though a new leader exists.
  std::chrono::milliseconds request_timeout{5'000};
  /// Time to connect, name resolution and the TLS handshake included. 1 ms to 10 min.
  std::chrono::milliseconds connect_timeout{2'000};
  /// First and largest pause between retries, 1 ms to 10 min; each pause is random between 0 and its turn's bound (full
  /// jitter), which doubles from turn to turn.
  std::chrono::milliseconds backoff_min{20};
  std::chrono::milliseconds backoff_max{1'000};

  /// Connections for ordinary requests, 1 to 1000. Renewals have their own, each running blocking query another. An
  /// agent accepts 200 from one address by default (`http_max_conns_per_client`).
  std::size_t connections_max = 4;
  /// Connections for renewals of sessions, 1 to 1000. There is one while answers come quickly, and one more whenever a
  /// renewal has waited 100 ms for it; the earliest deadline is served first. At least (sessions x round trip) / (TTL /
  /// 3) are needed; with fewer, sessions end though they are renewed.
  std::size_t renewals_max = 16;
  /// Blocking queries at once, 1 to 1000, each on a connection of its own. A semaphore that is held or waited for has
  /// one: raise it for a client with more such semaphores, and the agent's limit with it: all processes of a host share
  /// that, and five of these defaults fit into 200. Beyond it they take turns (`read_options::index`): each looks once
  /// in a while (at most 10 s) only, and notices grants and losses that much later. When the agent refuses connections,
  /// fewer run, down to 2, and more again as it accepts them.
  std::size_t blocking_max = 32;
  /// Ordinary requests that wait for a connection, and also blocking queries that do, 1 to 1'000'000; the next fails at
  /// once with error::too_busy. Renewals are not counted and not refused.
  std::size_t queue_max = 100'000;
  /// Largest reply accepted, 1 KiB to 1 GiB. A prefix listing holds every entry below it.
  std::size_t reply_bytes_max = 64u << 20;

  /// Called on the client's strand with one line of text: when requests go to another agent, with the reason; when the
  /// agent begins to refuse connections, because it has too many from this address; when a new token or a new
  /// certificate cannot be used; and once if TLS does not verify the agent. The line contains no secrets. Exceptions
  /// from the function leave through `io_context::run()`. Empty: nothing is logged.
  std::function<void(std::string_view)> log{};

  /// The defaults, overridden by those of `consul`'s environment variables that are set and not empty: CONSUL_HTTP_ADDR
  /// (without a port: 80, or 443 with TLS), CONSUL_HTTP_TOKEN, CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH,
  /// CONSUL_HTTP_SSL, CONSUL_HTTP_SSL_VERIFY, CONSUL_CACERT, CONSUL_CAPATH, CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY,
  /// CONSUL_TLS_SERVER_NAME, CONSUL_NAMESPACE, CONSUL_PARTITION; by HTTP_PROXY, HTTPS_PROXY and NO_PROXY; and by
  /// CONSUL_DATACENTER. Throws `system_error`: invalid_option (a flag that is neither true nor false; HTTP_PROXY in a
  /// CGI program), invalid_address, unsupported_scheme.
  static config from_environment();
};

}  // namespace holdfast::consul

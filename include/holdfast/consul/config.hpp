// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/detail/export.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/tls_options.hpp>
#include <holdfast/tracer.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::consul {

/// The settings of a client. The client's constructor checks them.
struct config {
  /// The address of the agent: `host`, `host:port` or `http://host:port` (default port 8500), `https://host:port`
  /// (default port 8501), or `unix://PATH` for the UNIX socket of an agent on this host. A path behind
  /// `http://host:port` or `https://host:port` is put before the path of every request, for an HTTP server that
  /// forwards requests from there.
  std::string address = "127.0.0.1:8500";
  /// Several agents, which replace `address`; at most 16. All must belong to one cluster, because indexes and sessions
  /// are only valid in their own cluster. Requests go to the first agent that works, and stay there while it works. If
  /// it cannot be reached, requests go to the next agent. If for a second it does not answer, or answers only with
  /// errors, all agents are asked for the cluster's leader. If another agent knows a leader, and the current one knows
  /// none or does not answer, requests go to the other one. From a minute later on, the agents before it in the list
  /// are tried again.
  std::vector<std::string> addresses{};
  /// A proxy that forwards requests to the agents: `http://[user:password@]host[:port]` (default port 80). For an
  /// `https://` address it is asked for a tunnel (CONNECT). A `unix://` address does not use it. Empty: no proxy.
  std::string proxy{};

  /// The ACL token, sent with every operation as X-Consul-Token. It consists of printable ASCII without spaces. Empty:
  /// no token. Never logged.
  std::string token{};
  /// The path of a file with the token, which replaces `token`. Only if the file is empty when the client is
  /// constructed, `token` is used. Must not be set together with `token_function`.
  ///
  /// The client's constructor reads the file. Before a request, at most once a second, the client reads it again if it
  /// has changed. The client also reads it when Consul refuses the token, and repeats the request if the token has
  /// changed. If the file cannot be read, has become empty, or contains a token that cannot be sent, that is logged
  /// without the token, and the last token stays in use.
  std::string token_file{};
  /// A function that returns the token, which replaces `token`. The client's constructor calls it, and an exception
  /// from that call leaves the constructor. Afterwards the client calls it on its strand, before each request and when
  /// Consul has refused the token. It must not block. If it throws then, or returns a token that cannot be sent, that
  /// is logged, and the last token stays in use.
  std::function<std::string()> token_function{};
  /// How long Consul may answer "ACL not found" for a new token of `token_file` or `token_function`, counted from the
  /// first request with the token. (An agent may cache for up to 30 s that it does not know a token.) During this time
  /// the client uses the token that Consul accepted before, and one request in a second tries the new token. If Consul
  /// has accepted no token before, requests fail with error::token_unknown, which is treated like an outage. After this
  /// time, and for a token in `token`, requests fail with error::permission_denied. 0 to 10 min.
  std::chrono::milliseconds new_token_grace{35'000};
  /// `user:password` for an HTTP server in front of the agent (Authorization: Basic). Empty: none. Never logged.
  std::string http_auth{};
  /// The datacenter of all requests, including those for locks and sessions. The agent forwards them to a server there.
  /// Empty: the agent's own. doc/reference/consul.md says which agents can forward.
  std::string datacenter{};
  /// The Consul Enterprise namespace of keys and sessions. Empty: the token's own. Without Enterprise, Consul 1.11 and
  /// later refuses requests with a namespace.
  std::string consul_namespace{};
  /// The Consul Enterprise admin partition. Empty: the token's own. Without Enterprise, Consul 1.11 and later refuses
  /// requests with a partition. Earlier versions ignore it, and use the only partition they have.
  std::string partition{};

  tls_options tls{};

  /// The default timeout of an operation, which includes connecting and retries. 1 ms to 10 min. If it is too short,
  /// writes have unknown outcomes under load. If it is far over 30 s, a request to a leader that hangs is waited for
  /// although there is a new leader.
  std::chrono::milliseconds request_timeout{5'000};
  /// The timeout of connecting, which includes name resolution and the TLS handshake. 1 ms to 10 min.
  std::chrono::milliseconds connect_timeout{2'000};
  /// The bound of the first pause between retries, 1 ms to 10 min. The bound doubles with each retry up to
  /// `backoff_max`. Each pause is random between 0 and its bound (full jitter). While the agent refuses connections,
  /// the bounds are 25 ms to 250 ms instead.
  std::chrono::milliseconds backoff_min{20};
  /// The largest bound of a pause between retries, 1 ms to 10 min. At least `backoff_min`.
  std::chrono::milliseconds backoff_max{1'000};

  /// The largest number of connections that ordinary requests use at once, 1 to 1000. Renewals usually have connections
  /// of their own, and each running blocking query has one. An agent accepts 200 connections from one address
  /// by default (`http_max_conns_per_client`).
  std::size_t connections_max = 4;
  /// The largest number of connections for session renewals, 1 to 1000. While answers come quickly, there is one.
  /// Another is opened whenever a renewal has waited 100 ms for a connection. The renewal with the earliest deadline is
  /// served first. At least (sessions x round trip) / (TTL / 3) connections are needed: with fewer, sessions expire
  /// although they are renewed.
  std::size_t renewals_max = 16;
  /// The largest number of blocking queries that run at once, 1 to 1000. Each has a connection of its own.
  ///
  /// A semaphore that is waited for runs one blocking query. A semaphore that is held runs one or two, and more with
  /// many contenders. If a client needs more queries than this number for its semaphores, raise it. Raise the agent's
  /// limit of connections with it: all processes of a host share that limit, and only five clients with this default
  /// fit into 200. If there are more queries than this number, they take turns (`read_options::index`). Then a
  /// semaphore notices grants and losses about 10 s later, or more.
  ///
  /// When the agent refuses connections, fewer queries run, down to 2. When it accepts them again, more run.
  std::size_t blocking_max = 32;
  /// How many ordinary requests may wait for a connection, 1 to 1'000'000. If that many wait, the next one fails at
  /// once with error::too_busy. Blocking queries are counted separately, with the same limit. Renewals are never
  /// refused for this reason. While no agent can be reached, requests that wait for one are not counted.
  std::size_t queue_max = 100'000;
  /// The largest body of a reply that is accepted, 1 KiB to 1 GiB. The listing of a prefix holds every entry below it.
  /// Without its texts, the result of a read may take twice as much memory. A larger result is error::reply_too_large,
  /// too. That bound matters for listings of keys that are nearly all shorter than 13 bytes.
  std::size_t reply_bytes_max = 64u << 20;

  /// Called with the events that operators want to know. Empty: nothing is logged. The client logs:
  ///
  /// - that requests go to another agent, with the reason if it is known;
  /// - that the agent begins to refuse connections, because it has too many from this address;
  /// - that a new token or a new certificate cannot be used;
  /// - once, that TLS does not verify the agent.
  log_function log{};
  /// The tracer is notified of each request. Null: nothing is traced.
  std::shared_ptr<holdfast::tracer> tracer{};

  /// Returns the defaults, overridden by the environment variables that are set and not empty.
  ///
  /// - The variables of the `consul` command: CONSUL_HTTP_ADDR (default port 80, or 443 with TLS), CONSUL_HTTP_TOKEN,
  ///   CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_AUTH, CONSUL_HTTP_SSL, CONSUL_HTTP_SSL_VERIFY, CONSUL_CACERT, CONSUL_CAPATH,
  ///   CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY, CONSUL_TLS_SERVER_NAME, CONSUL_NAMESPACE, CONSUL_PARTITION.
  /// - The variables of proxies: HTTP_PROXY, HTTPS_PROXY, NO_PROXY, or the same names in lower case. They are not used
  ///   if the agent's address is `localhost`, a loopback address or a UNIX socket.
  /// - CONSUL_DATACENTER, which `consul` does not read.
  ///
  /// Throws `system_error`: invalid_option (a flag that is neither true nor false; HTTP_PROXY in a CGI program),
  /// invalid_address, unsupported_scheme.
  HOLDFAST_EXPORT static config from_environment();
};

}  // namespace holdfast::consul

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace holdfast::consul {

/// How to reach the agent. Checked once, by the client's constructor.
struct config {
  /// `host:port`, `http://host:port` or `host` (port 8500); `unix://PATH` for the socket of an agent on this host.
  /// https:// is refused: error::unsupported_scheme.
  std::string address = "127.0.0.1:8500";
  /// ACL token, sent with every request as X-Consul-Token; printable ASCII without spaces; empty: none. Never logged.
  std::string token{};
  /// Datacenter to ask, empty: the agent's own.
  std::string datacenter{};

  /// Default time for one operation, connecting and retries included. 1 ms to 10 min. Too short gives unknown outcomes
  /// under load; far over 30 s, requests to a leader that froze are waited for though a new leader exists.
  std::chrono::milliseconds request_timeout{5'000};
  /// Time for one TCP connect, name resolution included. 1 ms to 10 min.
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

  /// Called on the client's strand, with one line, when the agent begins to refuse connections because it has too many
  /// from this address: first, and when it has refused none for a minute. Empty: nobody is told.
  std::function<void(std::string_view)> log{};

  /// The defaults, overridden by CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN and CONSUL_DATACENTER where they are set and not
  /// empty. CONSUL_HTTP_SSL=true makes the address an https one, which the client refuses, rather than ignore it.
  static config from_environment();
};

}  // namespace holdfast::consul

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/diagnostics.hpp>

namespace holdfast::consul {

/// Consul's consistency modes (https://www.consul.io/api-docs/features/consistency).
enum class consistency {
  leader,      ///< the default mode: the leader answers; stale only in a rare window around a failover
  consistent,  ///< the leader confirms its leadership first: one more round trip among the servers, never stale
  stale,       ///< any server answers; may be arbitrarily old. Decides nothing in this library
};

/// What every operation takes. Trivially destructible, so that braces at the call are safe with g++ 12 coroutines.
struct request_options {
  /// Time for the whole operation, retries included; also the queueing for a connection. Up to 10 min; 0:
  /// `config::request_timeout`. Outside: error::invalid_option.
  std::chrono::milliseconds timeout{0};
  /// Whether to repeat the request while time is left, where repeating is safe: anything that was certainly not sent;
  /// reads, renewals and destroys also after error::connection_lost, server_error and too_many_requests. Exponential
  /// backoff with full jitter. A blocking query is not repeated once it was sent.
  bool retry = true;
  /// Filled in on failure, and when an answer lacks what the ACL token may not read (`query_meta::filtered_by_acls`).
  /// Must outlive the operation. See `diagnostics`.
  diagnostics* diag = nullptr;
};

struct read_options {
  consistency mode = consistency::leader;
  /// Not 0: a blocking query, which answers when the index has gone past this value or `wait` is over. It has a
  /// connection of its own, and ends by `wait` + `wait`/16 + `request_options::timeout` at the latest. While
  /// `config::blocking_max` others run it queues, up to one `wait` longer than that and then with error::too_busy; what
  /// it has queued is taken off its `wait`, and once it runs it has `wait`/16 + `timeout` in any case.
  std::uint64_t index = 0;
  /// How long a blocking query may wait, 1 ms to 10 min (Consul's maximum); Consul adds up to 1/16. Outside:
  /// error::invalid_option. Only used with an index.
  std::chrono::milliseconds wait{60'000};
  request_options request{};
};

/// What comes with every read.
struct query_meta {
  std::uint64_t index = 0;  ///< X-Consul-Index, 0 when the reply had none
  bool known_leader = true;
  std::chrono::milliseconds last_contact{0};
  /// X-Consul-Results-Filtered-By-ACLs: there is more, which the token may not read. Consul says so from 1.11 on, and
  /// only to requests with a token: to others, and before, what may not be read looks as if it were not there.
  bool filtered_by_acls = false;
  /// The wait that the agent was asked for, 0 of a query without an index. It is shorter than `read_options::wait`
  /// where little time was left, or while the agent refuses connections.
  std::chrono::milliseconds wait{0};
  bool operator==(const query_meta&) const = default;
};

template <class T>
struct answer {
  T value{};
  query_meta meta{};
};

/// The index to ask with next, from the one asked with and the one answered: an index that is 0 or went backwards
/// starts over at 0, which answers at once (https://www.consul.io/api-docs/features/blocking).
constexpr std::uint64_t next_index(std::uint64_t asked, std::uint64_t answered) noexcept {
  return answered < asked ? 0 : answered;
}

}  // namespace holdfast::consul

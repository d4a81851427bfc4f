// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/diagnostics.hpp>

namespace holdfast::consul {

/// Consul's consistency modes (https://www.consul.io/api-docs/features/consistency).
enum class consistency {
  leader,      ///< the default mode: the leader answers; stale only in a rare window around a failover
  consistent,  ///< the leader confirms its leadership first: one more round trip among the servers, never stale
  stale,       ///< any server answers; may be arbitrarily old. No lock decision of this library relies on it
};

/// The options of every operation of a client, and of the commands of `semaphore_administration`. Trivially
/// destructible, so that `{...}` as an argument is safe in g++ 12 coroutines.
struct request_options {
  /// The timeout of the whole operation, which includes queueing for a connection and retries. A blocking query has
  /// more time: see `read_options::index`. 0 means `config::request_timeout`, and for a command
  /// `administration_options::timeout`. A negative timeout, or one over 10 min, fails with error::invalid_option.
  std::chrono::milliseconds timeout{0};
  /// Ignored by commands. If true, the request is repeated while time is left, if repeating it is safe. Every request
  /// is repeated after error::unreachable and error::token_unknown. Reads, renewals of sessions, their destruction, and
  /// node registrations are also repeated after connection_lost, server_error, not_consul and too_many_requests; a
  /// blocking query is not. The pauses between attempts are set by `config::backoff_min` and `config::backoff_max`. If
  /// false, and no agent can be reached, the operation fails with the first failed attempt to connect.
  ///
  /// In these cases, a request that may be repeated is sent again even if `retry` is false:
  ///
  /// - the agent has refused a new connection because it has too many (after a pause of up to 250 ms);
  /// - the client has changed to another agent;
  /// - Consul has refused the token, and there is a new one;
  /// - the connection of a blocking query was closed without an answer after 1 s or more, for example by a proxy.
  bool retry = true;
  /// Receives the description of a failure, or of an answer that lacks something that the ACL token may not read
  /// (`query_meta::filtered_by_acls`). Must outlive the operation. Null: not used. See `diagnostics`.
  diagnostics* diag = nullptr;
  const void* trace_parent = nullptr;  ///< the tracer gets it; see `span_start::parent`
};

struct read_options {
  consistency mode = consistency::leader;
  /// If not 0, the read is a blocking query: it is answered when the index has passed this value, or after `wait`. It
  /// has a connection of its own, and completes within `wait` + `wait`/16 + `request_options::timeout` unless it has to
  /// queue or is sent again (`request_options::retry`).
  ///
  /// While `config::blocking_max` other queries run, it queues; while the agent refuses connections, fewer queries may
  /// run. If it gets no place for one `wait` beyond the time above, it fails with error::too_busy. If the agent refuses
  /// connections, the error is too_many_requests; if no agent can be reached, that of the last attempt to connect. The
  /// time in the queue is taken off the wait that it asks Consul for. When it leaves the queue, it has at least
  /// `wait`/16 + `timeout` left.
  std::uint64_t index = 0;
  /// How long Consul may hold a blocking query, 1 ms to 10 min (Consul's maximum). Consul adds up to 1/16. Another
  /// value fails with error::invalid_option. Only used with an index.
  std::chrono::milliseconds wait{60'000};
  request_options request{};
};

/// The metadata of the answer to a read.
struct query_meta {
  std::uint64_t index = 0;                    ///< X-Consul-Index, or 0 if the reply had none
  bool known_leader = true;                   ///< X-Consul-Knownleader
  std::chrono::milliseconds last_contact{0};  ///< X-Consul-Lastcontact: the server's last contact with the leader
  /// X-Consul-Results-Filtered-By-ACLs. True if the answer lacks something that the token may not read. Consul sends it
  /// from 1.11 on, and only for requests with a token. Otherwise the answer does not show that something is missing.
  bool filtered_by_acls = false;
  /// The wait that the agent was asked for; 0 for a read without an index. It is shorter than `read_options::wait` if
  /// part of the time was already used, for example in the queue, or while the agent refuses connections.
  std::chrono::milliseconds wait{0};
  bool operator==(const query_meta&) const = default;
};

template <class T>
struct answer {
  T value{};
  query_meta meta{};
};

/// Returns the index for the next blocking query, from the index of the last query and the index of its answer. If the
/// answer's index is 0 or has gone backwards, returns 0: the next read is then answered at once
/// (https://www.consul.io/api-docs/features/blocking).
constexpr std::uint64_t next_index(std::uint64_t asked, std::uint64_t answered) noexcept {
  return answered < asked ? 0 : answered;
}

}  // namespace holdfast::consul

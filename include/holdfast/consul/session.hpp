// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::consul {

/// Decides whether Consul unlocks or deletes the keys that a session has locked when the session ends.
enum class session_behavior { release, remove };

/// The arguments of `client::create_session`. In a g++ 12 coroutine, pass a named object: temporaries with strings are
/// destroyed twice.
struct session_options {
  std::string name{};
  /// If the session is not renewed, Consul ends it between one and two TTLs after its last renewal. A new leader of
  /// Consul starts that time anew. 0: no TTL. The server accepts 10 s to 24 h by default. Another value fails with
  /// error::invalid_ttl.
  std::chrono::milliseconds ttl{15'000};
  /// How long the keys of an invalidated session cannot be locked again. 0 to 60 s.
  std::chrono::milliseconds lock_delay{15'000};
  session_behavior behavior = session_behavior::release;
  /// If true, the session also ends when its node fails its health check (serfHealth). If false, no health
  /// check ends it. This has no effect if `node` is set: such a session never depends on a health check.
  bool node_checks = true;
  /// The node of Consul's catalog that the session belongs to. The session ends when the node is deregistered. Empty:
  /// the agent's own node. See `client::register_node`.
  std::string node{};
};

/// The arguments of `client::register_node`. In a g++ 12 coroutine, pass a named object: temporaries with strings are
/// destroyed twice.
struct node_registration {
  std::string name{};
  /// Required by Consul, which never connects to it. A node without an agent may have any address, for example
  /// 127.0.0.1.
  std::string address{};
};

/// A node of Consul's catalog.
struct catalog_node {
  std::string name;
  std::string address;
  /// The index at which the node was registered. It changes if the node is deregistered and registered again. It does
  /// not change if only the address changes.
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
};

struct session_info {
  std::string id;
  std::string name;
  std::string node;
  std::chrono::nanoseconds ttl{0};
  std::chrono::nanoseconds lock_delay{0};
  session_behavior behavior = session_behavior::release;
  std::vector<std::string> node_checks;
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
};

}  // namespace holdfast::consul

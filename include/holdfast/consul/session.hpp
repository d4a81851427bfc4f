#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::consul {

/// What happens to the keys that a session has locked when it ends.
enum class session_behavior { release, remove };

/// Arguments of session creation. Strings inside: give it a name of its own before a co_await (g++ 12).
struct session_options {
  std::string name{};
  /// Consul ends the session between TTL and 2 x TTL after its last renewal. 0: no TTL. The server's range is by
  /// default 10 s to 24 h; outside it, error::invalid_ttl.
  std::chrono::milliseconds ttl{15'000};
  /// How long keys of an invalidated session cannot be locked again. 0 to 60 s.
  std::chrono::milliseconds lock_delay{15'000};
  session_behavior behavior = session_behavior::release;
  /// Whether the node's health (serfHealth) ends the session too. Without it only the TTL does, and the node's own end.
  /// Only the agent's own node has that check: with a `node` this has no effect.
  bool node_checks = true;
  /// The node of Consul's catalog that the session belongs to and ends with, empty: the agent's own. See
  /// `client::register_node`.
  std::string node{};
};

/// A node for Consul's catalog. Strings inside: give it a name of its own before a co_await (g++ 12).
struct node_registration {
  std::string name{};
  /// Consul wants one, and connects to it for nothing. A node that no agent stands behind may have any, 127.0.0.1 say.
  std::string address{};
};

/// A node of Consul's catalog.
struct catalog_node {
  std::string name;
  std::string address;
  /// The node has stood since this index: it is a new one when the node was deregistered and registered again, and
  /// stays when only the address changes.
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

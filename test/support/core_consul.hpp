// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/consul/txn.hpp>
#include <holdfast/testing/store.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/base/time.hpp"
#include "protocol/core/events.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::test {

/// The model of Consul with the interface of the core. It takes times of the core's clock, and takes and returns the
/// core's types, which `consul_store` converts. All rules are those of the model's store.
class core_consul {
public:
  core_consul();

  testing::store store;

  /// Creates a session as the driver does: when the session ends, its keys are deleted. The first is `session_id(1)`.
  /// Returns an empty text if there is no such node.
  std::string create_session(protocol::duration ttl, protocol::time_point now, protocol::duration lock_delay = {},
                             std::string_view node = {});
  void register_node(std::string_view name, protocol::time_point now);
  void deregister_node(std::string_view name, protocol::time_point now);
  bool renew_session(std::string_view id, protocol::time_point now);
  void destroy_session(std::string_view id, protocol::time_point now);
  bool has_session(std::string_view id) const;
  void advance(protocol::time_point now);
  /// Consul starts anew, with its lowest index. There must be no watches.
  void lose_state();

  consul::txn_reply transact(std::vector<kv_operation> operations, protocol::time_point now);
  /// The result of a read or a watch of the prefix, with the present state.
  protocol::event::prefix_listed listed(protocol::request_id id, std::string_view prefix) const;
  protocol::event::key_watched key_seen(protocol::request_id id, std::string_view key) const;
  protocol::event::node_seen node_seen(protocol::request_id id, const std::string& node) const;
  std::vector<kv_entry> list(std::string_view prefix) const;
  std::optional<kv_entry> get(std::string_view key) const;

  // Unconditional writes of operators and other programs.
  void put(std::string key, std::string value, std::uint64_t flags, protocol::time_point now);
  void remove(std::string key, protocol::time_point now);
  void remove_tree(std::string prefix, protocol::time_point now);

  /// Ids are as long as Consul's, and in the order of creation. They differ in their beginnings only. The rest,
  /// `session_tail`, can be left out where people read them.
  static std::string session_id(std::uint64_t number);
  static constexpr std::string_view session_tail = "-0000-4000-8000-000000000000";

private:
  std::uint64_t last_session_ = 0;
};

}  // namespace holdfast::test

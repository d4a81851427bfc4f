#pragma once

#include <cstdint>
#include <holdfast/consul/txn.hpp>
#include <holdfast/testing/store.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/operation.hpp"
#include "protocol/snapshot.hpp"
#include "protocol/time.hpp"

namespace holdfast::test {

/// The model of Consul as the core sees it: asked on the core's clock and in its terms, and answered in them, by the
/// conversions of `consul_store`. It has no rules of its own; they are the store's.
class core_consul {
public:
  core_consul();

  testing::store store;

  /// As the driver asks for one: its end deletes its keys. The first is `session_id(1)`.
  /// Empty if there is no such node.
  std::string create_session(protocol::duration ttl, protocol::time_point now, protocol::duration lock_delay = {},
                             std::string_view node = {});
  void register_node(std::string_view name, protocol::time_point now);
  void deregister_node(std::string_view name, protocol::time_point now);
  bool renew_session(std::string_view id, protocol::time_point now);
  void destroy_session(std::string_view id, protocol::time_point now);
  bool has_session(std::string_view id) const;
  void advance(protocol::time_point now);
  /// It starts anew, from its lowest index. There must be no watches.
  void lose_state();

  consul::txn_reply transact(std::vector<kv_operation> operations, protocol::time_point now);
  /// What a read of the prefix, or its watch, brings now.
  protocol::event::prefix_listed listed(protocol::request_id id, std::string_view prefix) const;
  protocol::event::key_watched key_seen(protocol::request_id id, std::string_view key) const;
  protocol::event::node_seen node_seen(protocol::request_id id, const std::string& node) const;
  std::vector<kv_entry> list(std::string_view prefix) const;
  std::optional<kv_entry> get(std::string_view key) const;

  // What operators and other programs do, without looking.
  void put(std::string key, std::string value, std::uint64_t flags, protocol::time_point now);
  void remove(std::string key, protocol::time_point now);
  void remove_tree(std::string prefix, protocol::time_point now);

  /// Ids are as long as Consul's, and in the order of creation. What tells them apart comes first: the rest,
  /// `session_tail`, can be left out where people read them.
  static std::string session_id(std::uint64_t number);
  static constexpr std::string_view session_tail = "-0000-4000-8000-000000000000";

private:
  std::uint64_t last_session_ = 0;
};

}  // namespace holdfast::test

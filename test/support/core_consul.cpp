// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/core_consul.hpp"

#include <utility>

#include "runtime/convert.hpp"

namespace holdfast::test {

using consul::txn_operation;

namespace {

// The simulations use TTLs far below Consul's least one.
testing::store_options quick() {
  testing::store_options options;
  options.version = {1, 8, 7};  // fixed, so that simulated worlds stay the same when a newer version is modelled
  options.session_ttl_min = std::chrono::milliseconds(1);
  return options;
}

testing::store::time_point at(protocol::time_point t) { return testing::store::time_point(t.time_since_epoch()); }

}  // namespace

core_consul::core_consul() : store(quick()) {}

std::string core_consul::session_id(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(8 - digits.size(), '0') + digits + std::string(session_tail);
}

std::string core_consul::create_session(protocol::duration ttl, protocol::time_point now, protocol::duration lock_delay,
                                        std::string_view node) {
  consul::session_info session;
  session.id = session_id(++last_session_);
  session.ttl = ttl;
  session.lock_delay = lock_delay;
  session.behavior = consul::session_behavior::remove;
  session.node = node;
  std::string id = session.id;
  return store.create_session(std::move(session), at(now)) ? std::string() : id;
}
void core_consul::register_node(std::string_view name, protocol::time_point now) {
  store.register_node(std::string(name), "127.0.0.1", at(now));
}
void core_consul::deregister_node(std::string_view name, protocol::time_point now) {
  store.deregister_node(name, at(now));
}
bool core_consul::renew_session(std::string_view id, protocol::time_point now) {
  return store.renew_session(id, at(now));
}
void core_consul::destroy_session(std::string_view id, protocol::time_point now) { store.destroy_session(id, at(now)); }
bool core_consul::has_session(std::string_view id) const { return store.session(id).value.has_value(); }
void core_consul::advance(protocol::time_point now) { store.advance(at(now)); }
void core_consul::lose_state() { store = testing::store(quick()); }

consul::txn_reply core_consul::transact(std::vector<kv_operation> operations, protocol::time_point now) {
  return store.transact(std::move(operations), at(now));
}

protocol::event::prefix_listed core_consul::listed(protocol::request_id id, std::string_view prefix) const {
  return runtime::prefix_listed(id, {}, store.list(prefix), {});
}
protocol::event::key_watched core_consul::key_seen(protocol::request_id id, std::string_view key) const {
  return runtime::key_watched(id, {}, store.get(key), {});
}
protocol::event::node_seen core_consul::node_seen(protocol::request_id id, const std::string& node) const {
  const auto found = store.node(node);
  consul::answer<std::optional<consul::catalog_node>> answer;
  if (found.value)
    answer.value = consul::catalog_node{found.value->name, found.value->address, found.value->create_index,
                                        found.value->modify_index};
  return runtime::node_seen(id, {}, answer, {});
}
std::vector<kv_entry> core_consul::list(std::string_view prefix) const { return store.list(prefix).value; }
std::optional<kv_entry> core_consul::get(std::string_view key) const { return store.get(key).value; }

void core_consul::put(std::string key, std::string value, std::uint64_t flags, protocol::time_point now) {
  store.write(txn_operation::set(std::move(key), std::move(value), flags), at(now));
}
void core_consul::remove(std::string key, protocol::time_point now) {
  store.write(txn_operation::remove(std::move(key)), at(now));
}
void core_consul::remove_tree(std::string prefix, protocol::time_point now) {
  store.write(txn_operation::remove_tree(std::move(prefix)), at(now));
}

}  // namespace holdfast::test

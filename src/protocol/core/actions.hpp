// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/core/events.hpp"
#include "protocol/core/joined.hpp"
#include "protocol/core/user_actions.hpp"

namespace holdfast::protocol::action {

struct create_session {
  member_id member;
  bool operator==(const create_session&) const = default;
};
/// The node that our sessions belong to is not in Consul's catalog: register it.
struct register_node {
  bool operator==(const register_node&) const = default;
};
struct renew_session {
  member_id member;
  std::string session;
  bool operator==(const renew_session&) const = default;
};
struct destroy_session {
  std::string session;
  bool operator==(const destroy_session&) const = default;
};
struct send_txn {
  request_id id;
  std::vector<kv_operation> operations;
  bool operator==(const send_txn&) const = default;
};
/// List the prefix, consistently. With index 0, the answer comes at once. Otherwise it comes when the prefix has
/// changed after `index`, or when `wait` has passed.
struct list_prefix {
  request_id id;
  std::string prefix;
  std::uint64_t index = 0;
  duration wait{};
  /// This process holds something there or waits for it. If the store finds no key at all, it reads one, to see whether
  /// the ACL token may read it. Before Consul 1.11, a listing does not tell forbidden keys from missing ones.
  bool expects_keys = false;
  bool operator==(const list_prefix&) const = default;
};

/// Read one key, consistently. With index 0, the answer comes at once. Otherwise it comes when the key has changed
/// after `index`, or when `wait` has passed.
struct watch_key {
  request_id id;
  std::string key;
  std::uint64_t index = 0;
  duration wait{};
  bool operator==(const watch_key&) const = default;
};
/// Read a node of Consul's catalog, consistently.
struct read_node {
  request_id id;
  std::string node;
  bool operator==(const read_node&) const = default;
};
/// Cancel the watch. Its answer is not needed any more.
struct stop_watch {
  request_id id;
  bool operator==(const stop_watch&) const = default;
};

/// Begin, or stop, to send `event::maker_gone` for each session for this lock on this host whose maker is found to be
/// gone, and `event::maker_file_removed`. When it begins, that includes the makers that are gone already.
struct watch_makers {
  bool on = false;
  bool operator==(const watch_makers&) const = default;
};

/// A session that should have been destroyed has expired by now, as far as the core can know. The core does nothing
/// more about it.
struct forget_session {
  std::string session;
  bool operator==(const forget_session&) const = default;
};

}  // namespace holdfast::protocol::action

namespace holdfast::protocol {

/// An action for the store, or for the driver that has the files of the sessions.
using store_action = std::variant<action::create_session, action::register_node, action::renew_session,
                                  action::destroy_session, action::send_txn, action::list_prefix, action::watch_key,
                                  action::read_node, action::stop_watch, action::watch_makers, action::forget_session>;

using core_action = joined<store_action, user_action>;
using core_actions = std::vector<core_action>;

}  // namespace holdfast::protocol

#pragma once

#include <cstdint>
#include <holdfast/fencing_token.hpp>
#include <holdfast/loss_reason.hpp>
#include <string>
#include <variant>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/operation.hpp"

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
/// List the prefix, consistently: now (index 0), or when it has gone past `index`, or when `wait` is over.
struct list_prefix {
  request_id id;
  std::string prefix;
  std::uint64_t index = 0;
  duration wait{};
  bool operator==(const list_prefix&) const = default;
};

/// Read one key, consistently, when it has gone past `index`, or when `wait` is over.
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
/// The watch's answer is of no use any more.
struct stop_watch {
  request_id id;
  bool operator==(const stop_watch&) const = default;
};

/// The acquire is done: the caller has a slot.
struct grant {
  protocol::ticket ticket;
  slot_id slot;
  fencing_token token;
  time_point deadline;
  std::vector<std::uint32_t> numbers{};  ///< one for each that the slot counts, if they are numbered
  bool operator==(const grant&) const = default;
};
/// The acquire is done: none was free (in time).
struct deny {
  protocol::ticket ticket;
  bool operator==(const deny&) const = default;
};
struct fail {
  protocol::ticket ticket;
  failure error;
  bool operator==(const fail&) const = default;
};
/// The release is done: locally, in Consul, or, with an error, when the session expires at the latest. One for each
/// release of a slot in use, after `give_up_after` at the latest; none for a slot that was lost before.
struct released {
  slot_id slot;
  failure error{};
  bool operator==(const released&) const = default;
};
struct lose {
  slot_id slot;
  loss_reason reason;
  failure why{};       ///< what led there
  std::string lock{};  ///< the name of the lock, if the core has several
  bool operator==(const lose&) const = default;
};
/// An operator asks for the slot: it is held as before. Once for a slot.
struct revoke {
  slot_id slot;
  bool operator==(const revoke&) const = default;
};
/// The slot's lease deadline, or whether it is in doubt, has changed.
struct update {
  slot_id slot;
  time_point deadline;
  bool suspect = false;
  bool operator==(const update&) const = default;
};
/// The pool has given everything back; with an error, what it could not give back expires with its sessions.
struct closed {
  failure error{};
  bool operator==(const closed&) const = default;
};
/// Something that an operator may want to read in a log.
struct note {
  std::string text;
  bool operator==(const note&) const = default;
};

}  // namespace holdfast::protocol::action

namespace holdfast::protocol {

using core_action =
    std::variant<action::create_session, action::register_node, action::renew_session, action::destroy_session,
                 action::send_txn, action::list_prefix, action::watch_key, action::read_node, action::stop_watch,
                 action::grant, action::deny, action::fail, action::released, action::lose, action::revoke,
                 action::update, action::closed, action::note>;
using core_actions = std::vector<core_action>;

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

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
/// List the prefix, consistently. With index 0, the answer comes at once. Otherwise it comes when the prefix has
/// changed after `index`, or when `wait` has passed.
struct list_prefix {
  request_id id;
  std::string prefix;
  std::uint64_t index = 0;
  duration wait{};
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

/// The acquire is done. The caller holds a slot.
struct grant {
  protocol::ticket ticket;
  slot_id slot;
  fencing_token token;
  time_point deadline;
  std::vector<std::uint32_t> numbers{};  ///< if slots are numbered: one for each slot that the acquire asked for
  bool operator==(const grant&) const = default;
};
/// The acquire is done. It could not get its slots at once, or did not get them in time.
struct deny {
  protocol::ticket ticket;
  bool operator==(const deny&) const = default;
};
struct fail {
  protocol::ticket ticket;
  failure error;
  bool operator==(const fail&) const = default;
};
/// The release is done, locally or in Consul. With an error, the slot becomes free when the session expires at the
/// latest. There is one such action for each release of a slot in use. A pool that cannot release the slot for
/// `give_up_after`, or half of it while it closes, ends the session. Then it reports the release when the session has
/// ended, when its lease expires, or when the pool is closed. A mutex set reports the release after `give_up_after` at
/// the latest. There is none for a slot that was lost before.
struct released {
  slot_id slot;
  failure error{};
  bool operator==(const released&) const = default;
};
struct lose {
  slot_id slot;
  loss_reason reason;
  failure why{};       ///< the failure that led to the loss, if any
  std::string lock{};  ///< the name of the lock, if the core has several
  bool operator==(const lose&) const = default;
};
/// An operator asks the user to release the slot. The slot is still held. There is at most one such action for a slot.
struct revoke {
  slot_id slot;
  bool operator==(const revoke&) const = default;
};
/// The slot's deadline has changed, because its session was renewed or its grant was accepted. Or the slot has become
/// suspect, or is not suspect any more.
struct update {
  slot_id slot;
  time_point deadline;
  bool suspect = false;
  bool operator==(const update&) const = default;
};
/// The core is closed, and has released all that it held in Consul. With an error, the rest expires with its sessions.
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
                 action::watch_makers, action::forget_session, action::grant, action::deny, action::fail,
                 action::released, action::lose, action::revoke, action::update, action::closed, action::note>;
using core_actions = std::vector<core_action>;

}  // namespace holdfast::protocol

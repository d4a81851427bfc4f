// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/fencing_token.hpp>
#include <holdfast/log_kind.hpp>
#include <holdfast/loss_reason.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/base/failure.hpp"
#include "protocol/core/user_events.hpp"

namespace holdfast::protocol {

namespace action {

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
  std::optional<failure> error{};  ///< empty on success, which comes with each handoff
  bool operator==(const released&) const = default;
};
struct lose {
  slot_id slot;
  loss_reason reason;
  failure why{};          ///< the failure that led to the loss, if any
  std::string lock{};     ///< the name of the lock, if the core has several
  std::string session{};  ///< the session that held the slot, if it is known
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
  log_kind kind;
  std::string key;
  std::string session{};
  std::string cause{};
  bool operator==(const note&) const = default;
};

/// Ask the application whether it is alive. The answer is an `event::alive`.
struct ask_alive {
  bool operator==(const ask_alive&) const = default;
};

}  // namespace action

/// An action for the shell. Every core has these, on any backend.
using user_action = std::variant<action::grant, action::deny, action::fail, action::released, action::lose,
                                 action::revoke, action::update, action::closed, action::note, action::ask_alive>;

}  // namespace holdfast::protocol

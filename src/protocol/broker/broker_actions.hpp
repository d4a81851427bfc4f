// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "protocol/broker/broker_events.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/joined.hpp"
#include "protocol/core/user_actions.hpp"

namespace holdfast::protocol {

namespace action {

/// Find out which of the slots 1 to `count` exist, and which of them are taken. It uses the connection for probes.
struct probe {
  request_id id;
  std::uint32_t count = 1;
  bool operator==(const probe&) const = default;
};

/// Open or reuse a connection that no other seat uses. Declare B on it, then take a token out of F, then ask for A, all
/// in one write (rule 1).
struct seize {
  seat_id seat;
  request_id id;
  /// This core has not had the slot before. Declare F in front of taking the token, so that the broker refuses another
  /// lease.
  bool declares_tokens = false;
  bool operator==(const seize&) const = default;
};

/// Ask for B, then for A, on the connection of the seat (rule 4).
struct verify {
  seat_id seat;
  request_id id;
  bool operator==(const verify&) const = default;
};

/// Purge F, and then verify, all in one write (rule 3).
struct cleanse {
  seat_id seat;
  request_id id;
  bool operator==(const cleanse&) const = default;
};

/// Ask for B, publish a token into F if `with_token`, delete B, and publish a hint if `with_hint`, all in one write on
/// the connection of the seat (rule 2). It is the last request of the seat, unless a `drop` follows.
struct vacate {
  seat_id seat;
  request_id id;
  bool with_token = false;
  bool with_hint = false;
  bool operator==(const vacate&) const = default;
};

/// Close the connection of the seat, and never use it again. It is the last action for the seat, and has no answer.
struct drop {
  seat_id seat;
  bool operator==(const drop&) const = default;
};

/// Begin to consume hints, or stop. It stands until the next `listen`, whatever becomes of the connection.
struct listen {
  bool on = false;
  bool operator==(const listen&) const = default;
};

/// The core has done what it can with this hint. `used`: acknowledge it. Otherwise requeue it, for another process.
struct settle_hint {
  hint_id hint;
  bool used = false;
  bool operator==(const settle_hint&) const = default;
};

/// The semaphore does not exist, or has fewer slots. Create it with `count` slots, as an administrator does. If there
/// are slots, that completes a creation that has died in the middle, and otherwise changes nothing.
struct create {
  request_id id;
  std::uint32_t count = 0;
  bool operator==(const create&) const = default;
};

}  // namespace action

/// An action for the link to the broker.
using link_action = std::variant<action::probe, action::seize, action::verify, action::cleanse, action::vacate,
                                 action::drop, action::listen, action::settle_hint, action::create>;

using broker_action = joined<link_action, user_action>;
using broker_actions = std::vector<broker_action>;
using broker_context = basic_context<broker_action>;

}  // namespace holdfast::protocol

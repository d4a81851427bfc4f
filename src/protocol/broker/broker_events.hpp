// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "protocol/base/failure.hpp"
#include "protocol/core/events.hpp"
#include "protocol/core/joined.hpp"
#include "protocol/core/user_events.hpp"

// The names A, B, F, N and N-F are those of the queues in src/rabbitmq/broker_link.hpp.

namespace holdfast::protocol {

/// Identifies one attempt of this core to have a slot of the semaphore, and the connection that the attempt uses. No id
/// is used twice. `number_of` returns the number of the slot.
enum class seat_id : std::uint64_t { none = 0 };
inline constexpr unsigned slot_number_bits = 16;
inline constexpr std::uint32_t slot_number_max = 1000;  ///< no semaphore at a broker has more slots
constexpr seat_id make_seat_id(std::uint64_t generation, std::uint32_t number) noexcept {
  return seat_id{(generation << slot_number_bits) | number};
}
constexpr std::uint32_t number_of(seat_id id) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << slot_number_bits) - 1));
}

/// Identifies a hint that the link has received and not yet settled. 0 stands for no hint.
enum class hint_id : std::uint64_t { none = 0 };

namespace event {

/// The answer to `action::probe`: what stands at the broker for the slots 1 to n.
struct probed {
  struct slot {
    bool exists = false;  ///< there is A
    bool taken = false;   ///< there is B
    bool operator==(const slot&) const = default;
  };
  request_id id;
  std::vector<slot> slots{};  ///< one for each slot that was asked for; empty on failure
  failure error{};
  bool operator==(const probed&) const = default;
};

/// The outcome of `action::seize`. With `ok` and `no_such_slot`, B is ours. With `failed`, B may be ours or not.
enum class seizure { ok, locked, no_such_slot, failed };
struct seized {
  seat_id seat;
  request_id id;
  seizure outcome;
  bool token = false;  ///< F had a token, which this request has taken; only if B is ours
  failure error{};
  bool operator==(const seized&) const = default;
};

/// The outcome of `action::verify` and of `action::cleanse`. With `gone`, B is missing or belongs to another.
enum class verification { ours, gone, failed };
struct verified {
  seat_id seat;
  request_id id;
  verification outcome;
  bool exists = true;  ///< there is A; only if B is ours
  failure error{};
  bool operator==(const verified&) const = default;
};

/// The answer to `action::vacate`. Without an error, B is not ours any more, and the connection can be used again.
struct vacated {
  seat_id seat;
  request_id id;
  failure error{};
  bool operator==(const vacated&) const = default;
};

/// A hint of another process: this slot has become free.
struct hinted {
  hint_id hint;
  std::uint32_t number = 0;
  bool operator==(const hinted&) const = default;
};

/// The connection of this seat has ended. The seat gets no more answers.
struct connection_ended {
  seat_id seat;
  failure error{};
  bool operator==(const connection_ended&) const = default;
};

/// The broker has an alarm, and carries out no more publishes. Or the alarm is over.
struct blocked {
  bool on = false;
  bool operator==(const blocked&) const = default;
};

/// In an alarm, the broker has stopped reading the connection of this seat, because the seat has published. The
/// broker carries out the rest of what was sent when the alarm is over.
struct seat_blocked {
  seat_id seat;
  bool operator==(const seat_blocked&) const = default;
};

/// The answer to `action::create`.
struct created {
  request_id id;
  failure error{};
  bool operator==(const created&) const = default;
};

}  // namespace event

/// An event from the link to the broker.
using link_event = std::variant<event::probed, event::seized, event::verified, event::vacated, event::hinted,
                                event::connection_ended, event::blocked, event::seat_blocked, event::created>;

using broker_event = joined<link_event, user_event>;

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// Identifies a local acquire. Later acquires have higher tickets, and no ticket is used twice.
enum class ticket : std::uint64_t {};
/// Identifies a slot that a user holds. No id is used twice, and 0 stands for no slot. The slots that are in use at the
/// same time have different indices, which are small numbers.
enum class slot_id : std::uint64_t { none = 0 };
// This allows a million slots at once. With a million handoffs per second, no generation repeats within half a year.
inline constexpr unsigned slot_index_bits = 20;
inline constexpr std::size_t slots_in_use_max = std::size_t{1} << slot_index_bits;
constexpr slot_id make_slot_id(std::uint64_t generation, std::size_t index) noexcept {
  return slot_id{(generation << slot_index_bits) | index};
}
constexpr std::size_t index_of(slot_id id) noexcept {
  return static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << slot_index_bits) - 1);
}
constexpr std::uint64_t generation_of(slot_id id) noexcept { return static_cast<std::uint64_t>(id) >> slot_index_bits; }

/// The options of an acquire that the core uses. Each core names all members in its `on(event::acquire&)`. So if this
/// struct gets another member, no core compiles until it names that one, too.
struct acquire_terms {
  std::uint32_t count = 1;      ///< the number of slots, all of them or none
  bool once = false;            ///< try once, without waiting for a slot
  time_point deadline = never;  ///< the acquire is denied at this time
  bool operator==(const acquire_terms&) const = default;
};

namespace event {

/// A caller wants slots. A mutex set uses `ticket` and `name`, and always tries once.
struct acquire {
  protocol::ticket ticket;
  acquire_terms terms{};
  std::string_view name{};  ///< the name of the lock in a mutex set; valid only during the step
  bool operator==(const acquire&) const = default;
};
struct cancel {
  protocol::ticket ticket;
  bool operator==(const cancel&) const = default;
};
struct release {
  slot_id slot;
  bool operator==(const release&) const = default;
};
/// Accept no more acquires, and release everything at the backend.
struct close {
  bool lose_slots = true;  ///< slots in use are lost; otherwise they stay until released
  bool at_once = false;    ///< no request can be made any more, so what is at the backend is left to expire
  bool operator==(const close&) const = default;
};
/// The time at which the core wanted to be woken has come.
struct tick {
  bool operator==(const tick&) const = default;
};

/// The answer to `action::ask_alive`. There is none while the application hangs.
struct alive {
  bool is_yes = true;
  bool operator==(const alive&) const = default;
};

}  // namespace event

/// An event from the shell. Every core takes these, on any backend.
using user_event = std::variant<event::acquire, event::cancel, event::release, event::close, event::tick, event::alive>;

}  // namespace holdfast::protocol

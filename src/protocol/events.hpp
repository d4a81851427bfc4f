// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "protocol/snapshot.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

/// Identifies a local acquire. Later acquires have higher tickets, and no ticket is used twice.
enum class ticket : std::uint64_t {};
/// Identifies a slot that a user holds. No id is used twice, and 0 stands for no slot. The slots that are in use at the
/// same time have different indices, which are small numbers.
enum class slot_id : std::uint64_t { none = 0 };
// This allows a million slots at once. With a million handoffs per second, no generation repeats within half a year.
inline constexpr unsigned slot_index_bits = 20;
inline constexpr std::size_t slots_max = std::size_t{1} << slot_index_bits;
constexpr slot_id make_slot_id(std::uint64_t generation, std::size_t index) noexcept {
  return slot_id{(generation << slot_index_bits) | index};
}
constexpr std::size_t index_of(slot_id id) noexcept {
  return static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << slot_index_bits) - 1);
}
constexpr std::uint64_t generation_of(slot_id id) noexcept { return static_cast<std::uint64_t>(id) >> slot_index_bits; }
/// Identifies a session of the core, also before Consul has given it an id. No `member_id` is used twice.
enum class member_id : std::uint64_t {};
/// Identifies a request to Consul. Later requests have higher numbers.
using request_id = std::uint64_t;

/// The reason of a failure: a code for programs, and a text for people.
struct failure {
  error_code code{};
  diagnostics details{};
  bool operator==(const failure&) const = default;
};

/// True for an error that repetition usually cannot mend. Callers that wait should receive it at once. An exception is
/// error::missing_node, after which a core tries again to create its session.
inline bool is_final(const error_code& code) { return !(code == condition::unavailable); }

namespace event {

/// A caller wants `count` slots, all of them or none. A mutex set uses only `ticket` and `name`, and always tries once.
struct acquire {
  protocol::ticket ticket;
  std::uint32_t count = 1;
  bool once = false;            ///< try once, without waiting for a slot
  time_point deadline = never;  ///< the acquire is denied at this time
  std::string_view name{};      ///< the name of the lock in a mutex set; valid only during the step
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
/// Accept no more acquires, and release everything in Consul.
struct close {
  bool lose_slots = true;  ///< slots in use are lost; otherwise they stay until released
  bool at_once = false;    ///< no request can be made any more, so sessions and keys in Consul are left to expire
  bool operator==(const close&) const = default;
};
struct session_created {
  member_id member;
  std::string session{};  ///< empty on failure
  failure error{};
  bool operator==(const session_created&) const = default;
};
/// The node that our sessions belong to is now in Consul's catalog. With an error, it could not be registered.
struct node_registered {
  failure error{};
  bool operator==(const node_registered&) const = default;
};
enum class renewal { renewed, gone, failed };
struct session_renewed {
  member_id member;
  renewal outcome;
  failure error{};  ///< why it was not renewed
  bool operator==(const session_renewed&) const = default;
};
struct session_destroyed {
  std::string session;
  bool gone = true;  ///< false: the session may still exist
  bool operator==(const session_destroyed&) const = default;
};
/// The outcome of a transaction. `unknown` is not a failure: the transaction may have been applied, or may be later.
enum class outcome { applied, refused, not_sent, unknown };
enum class refusal { conflict, lock_delay, invalid_session, permission_denied, other };
struct refused_operation {
  std::size_t operation = 0;
  refusal reason = refusal::conflict;
  bool operator==(const refused_operation&) const = default;
};
struct txn_done {
  request_id id;
  event::outcome outcome;
  std::vector<kv_entry> results{};
  std::vector<refused_operation> refusals{};
  failure error{};
  bool operator==(const txn_done&) const = default;
};
/// A listing of a prefix. It answers a read, a watch of everything, or a question of an observer or a command.
struct prefix_listed {
  request_id id;
  std::vector<kv_entry> listing{};
  std::uint64_t index = 0;
  failure error{};
  bool filtered = false;  ///< the ACL token may not read all keys of the prefix, so some are missing
  bool operator==(const prefix_listed&) const = default;
};
/// The state of a key that was watched or only read, changed or not. `pair` is empty if there is no such key.
struct key_watched {
  request_id id;
  std::optional<kv_entry> pair{};
  failure error{};
  std::uint64_t index = 0;
  duration wait{};  ///< the time for which Consul was asked to wait; 0: the `wait` of the action
  bool operator==(const key_watched&) const = default;
};
/// A consistent read has shown a node of Consul's catalog.
struct node_seen {
  request_id id;
  std::uint64_t create_index = 0;  ///< 0: there is no such node, or the token may not read it
  failure error{};
  bool operator==(const node_seen&) const = default;
};
/// The shell has proof that the process that made this session no longer exists, and that no process which inherited
/// the session's file exists. The session belongs to another process.
struct maker_gone {
  std::string session;
  bool operator==(const maker_gone&) const = default;
};
/// The file of a session whose maker is gone has been removed, most likely by a process that has freed its slot and
/// destroyed the session.
struct maker_file_removed {
  std::string session;
  bool operator==(const maker_file_removed&) const = default;
};
/// The holder of a mutex writes a value into its key. The value stays in the key when the holder releases it.
/// The pool is notified before each try to write, and once at the end.
struct value_written {
  enum class stage {
    tried,      ///< the write is about to be sent
    withdrawn,  ///< the value was not written, and never will be
    over,       ///< the value was written, or nobody knows, or the slot was lost; there are no more tries
  };
  std::uint64_t proclaim;  ///< identifies the proclaim, since two of them may have the same value
  std::string value{};     ///< used only with `tried`
  stage is = stage::tried;
  bool operator==(const value_written&) const = default;
};
/// The time that `core::wake` named has come.
struct tick {
  bool operator==(const tick&) const = default;
};

}  // namespace event

/// True for the events that only a pool receives. Other cores list no prefix, read no node, have no key with a value of
/// their user's, and do not watch makers.
template <class Event>
inline constexpr bool is_of_a_pool =
    std::is_same_v<Event, event::prefix_listed> || std::is_same_v<Event, event::node_seen> ||
    std::is_same_v<Event, event::value_written> || std::is_same_v<Event, event::maker_gone> ||
    std::is_same_v<Event, event::maker_file_removed>;

using core_event = std::variant<event::acquire, event::cancel, event::release, event::close, event::session_created,
                                event::node_registered, event::session_renewed, event::session_destroyed,
                                event::txn_done, event::prefix_listed, event::key_watched, event::node_seen,
                                event::value_written, event::maker_gone, event::maker_file_removed, event::tick>;

}  // namespace holdfast::protocol

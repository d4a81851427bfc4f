// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "protocol/base/failure.hpp"
#include "protocol/base/time.hpp"
#include "protocol/core/joined.hpp"
#include "protocol/core/user_events.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// Identifies a session of the core, also before Consul has given it an id. No `member_id` is used twice.
enum class member_id : std::uint64_t {};
/// Identifies a request to Consul. Later requests have higher numbers.
using request_id = std::uint64_t;

namespace event {

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

}  // namespace event

/// An event from the store that every core takes.
using common_event = std::variant<event::session_created, event::node_registered, event::session_renewed,
                                  event::session_destroyed, event::txn_done, event::key_watched>;
/// An event that only a pool takes. Other cores list no prefix, read no node, have no key with a value of their user's,
/// and do not watch makers.
using pool_event = std::variant<event::prefix_listed, event::node_seen, event::value_written, event::maker_gone,
                                event::maker_file_removed>;
/// An event from the store or the driver.
using store_event = joined<common_event, pool_event>;

using core_event = joined<user_event, store_event>;

/// Whether the event shows that the store has answered a request.
template <class Event>
constexpr bool is_answer(const Event& e) {
  if constexpr (std::is_same_v<Event, event::txn_done>)
    return e.outcome == event::outcome::applied || e.outcome == event::outcome::refused;
  else if constexpr (std::is_same_v<Event, event::session_renewed>)
    return e.outcome != event::renewal::failed;
  else if constexpr (std::is_same_v<Event, event::session_destroyed>)
    return e.gone;
  else if constexpr (requires { e.error.code; })
    return !e.error.code;
  else
    return false;
}

}  // namespace holdfast::protocol

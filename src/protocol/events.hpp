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

/// A local acquire; tickets grow, and are never used twice.
enum class ticket : std::uint64_t {};
/// A slot in a user's hands; never used twice. 0 is none. Those in use at a time have different indices, small ones.
enum class slot_id : std::uint64_t { none = 0 };
// A million slots at once; and a million handoffs a second do not use a generation twice in half a year.
inline constexpr unsigned slot_index_bits = 20;
inline constexpr std::size_t slots_max = std::size_t{1} << slot_index_bits;
constexpr slot_id make_slot_id(std::uint64_t generation, std::size_t index) noexcept {
  return slot_id{(generation << slot_index_bits) | index};
}
constexpr std::size_t index_of(slot_id id) noexcept {
  return static_cast<std::uint64_t>(id) & ((std::uint64_t{1} << slot_index_bits) - 1);
}
constexpr std::uint64_t generation_of(slot_id id) noexcept { return static_cast<std::uint64_t>(id) >> slot_index_bits; }
/// One session of the pool's, from before it has an id; never used twice.
enum class member_id : std::uint64_t {};
/// A request to Consul; later requests have higher numbers.
using request_id = std::uint64_t;

/// Why something could not be done: a code for programs, words for people.
struct failure {
  error_code code{};
  diagnostics details{};
  bool operator==(const failure&) const = default;
};

/// Errors that no repetition will mend: those who wait should hear at once.
inline bool is_final(const error_code& code) { return !(code == condition::unavailable); }

namespace event {

/// A caller wants `count` slots: all of them, or none.
struct acquire {
  protocol::ticket ticket;
  std::uint32_t count = 1;
  bool once = false;            ///< one look at the cluster, no waiting
  time_point deadline = never;  ///< then it is denied
  std::string_view name{};      ///< which lock of a set; valid during the step only
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
/// No more acquires; everything goes back to the cluster.
struct close {
  bool lose_slots = true;  ///< slots in use are lost; otherwise they stay until released
  bool at_once = false;    ///< no request can be made any more: what stands in Consul is left to expire
  bool operator==(const close&) const = default;
};
struct session_created {
  member_id member;
  std::string session{};  ///< empty on failure
  failure error{};
  bool operator==(const session_created&) const = default;
};
/// The node that our sessions belong to is in Consul's catalog now; with an error, it is not.
struct node_registered {
  failure error{};
  bool operator==(const node_registered&) const = default;
};
enum class renewal { renewed, gone, failed };
struct session_renewed {
  member_id member;
  renewal outcome;
  failure error{};  ///< why not
  bool operator==(const session_renewed&) const = default;
};
struct session_destroyed {
  std::string session;
  bool gone = true;  ///< false: nobody knows
  bool operator==(const session_destroyed&) const = default;
};
/// What became of a transaction. Unknown is not a failure: it may have been applied, or may be applied later.
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
/// A listing of the prefix: a plain read's, or the watch's.
struct prefix_listed {
  request_id id;
  std::vector<kv_entry> listing{};
  std::uint64_t index = 0;
  failure error{};
  bool filtered = false;  ///< the token may not read all that stands there
  bool operator==(const prefix_listed&) const = default;
};
/// What a watched key has become, or still is: none if there is no such key.
struct key_watched {
  request_id id;
  std::optional<kv_entry> pair{};
  failure error{};
  std::uint64_t index = 0;
  duration wait{};  ///< that Consul was asked for; 0: as long as the action says
  bool operator==(const key_watched&) const = default;
};
/// A node of Consul's catalog, as a consistent read has shown it.
struct node_seen {
  request_id id;
  std::uint64_t create_index = 0;  ///< 0: there is no such node, or the token may not read it
  failure error{};
  bool operator==(const node_seen&) const = default;
};
/// The holder of a mutex writes a value into its key. The value stays in the key when the holder releases it.
/// The pool is notified before each try to write, and once at the end.
struct value_written {
  enum class stage {
    tried,      ///< the write is about to be sent
    withdrawn,  ///< the value was not written, and never will be
    over,       ///< the value was written, or nobody knows; there are no more tries
  };
  std::uint64_t proclaim;  ///< identifies the proclaim, since two of them may have the same value
  std::string value{};     ///< only looked at with `tried`
  stage is = stage::tried;
  bool operator==(const value_written&) const = default;
};
/// The time that `pool::wake` named has come.
struct tick {
  bool operator==(const tick&) const = default;
};

}  // namespace event

/// What only a pool is told: others list nothing, and have no key whose value is their user's.
template <class Event>
inline constexpr bool is_of_a_pool =
    std::is_same_v<Event, event::prefix_listed> || std::is_same_v<Event, event::node_seen> ||
    std::is_same_v<Event, event::value_written>;

using core_event =
    std::variant<event::acquire, event::cancel, event::release, event::close, event::session_created,
                 event::node_registered, event::session_renewed, event::session_destroyed, event::txn_done,
                 event::prefix_listed, event::key_watched, event::node_seen, event::value_written, event::tick>;

}  // namespace holdfast::protocol

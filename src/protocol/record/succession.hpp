// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/time.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// The next contenders in the queue, as the process that granted a slot saw them. The granting process writes the
/// succession into the value of the entry that it grants, after the description. So the new holder can hand the slot on
/// without reading the whole queue. A succession may be out of date, or forged. Therefore a write that relies on it is
/// guarded by the index of each entry that the write grants.
template <class Contender>
struct succession_of {
  /// The next waiting contenders, not written since they joined. No others stand between them, except for those whose
  /// processes are probably dead.
  std::vector<Contender> next{};
  std::size_t behind = 0;                 ///< about how many more contenders wait; a value says at most `behind_max`
  std::uint32_t limit = 1;                ///< the record's limit; if it is 1, the new holder is the only holder
  std::optional<std::uint32_t> number{};  ///< the number that the grant has locked for the new holder
};
using succession = succession_of<contender>;
using succession_view = succession_of<const contender*>;

/// The largest number of contenders in a succession, and the largest number of bytes that they take.
inline constexpr std::size_t succession_max = 16;
inline constexpr std::size_t succession_bytes_max = 2048;
inline constexpr std::size_t behind_max = 100'000;

/// The largest size in bytes of a description, its stamp included, in our entries. A grant keeps at most this much of
/// the description in an entry of another process.
inline constexpr std::size_t description_max = 1536;

/// An entry's value: the description, and the succession if it names a contender or a number.
std::string with_succession(std::string_view description, const succession_view& s);

/// The description in such a value. If the value has no succession, but the description itself contains text that
/// begins like one, only the part before that text is returned.
std::string_view description_in(std::string_view value) noexcept;

/// Another value with the same description and without a valid succession. Writing it wakes the processes that watch
/// the entry.
std::string touched(std::string_view value);

/// The lease of the process that has made an entry. If its session ends unnoticed, the process may still rely on it for
/// the TTL minus the margin, at most.
struct entry_lease {
  duration ttl{};
  duration margin{};
  std::string_view node{};  ///< the session ends with this node of Consul's catalog; empty: the agent's own node
  bool accepts = false;     ///< the maker accepts grants by other processes; until then they are provisional
  bool operator==(const entry_lease&) const = default;
};
/// The description with a stamp, which says when the entry was made and what lease its maker has. The stamp is a line
/// of its own. It consists of `@` and the seconds since 1970, `+` and the TTL, and `-` and the margin. TTL and margin
/// are in milliseconds. A space and the node follow if the node is not `usual_node`. If it is the agent's own node,
/// only the space follows. A line `~` precedes the stamp if the maker accepts grants (acceptance.hpp). A process that
/// grants the entry keeps all of this as a part of the description. Without `lease`, the stamp consists of the time
/// only. There is no stamp if the time is before 1970.
std::string with_stamp(std::string_view description, duration since_1970, const std::optional<entry_lease>& lease = {});
/// The parts of such a value, without the succession.
struct entry_value {
  std::string_view description;
  std::optional<std::chrono::seconds> since_1970{};
  std::optional<entry_lease> lease{};
};
entry_value parse_entry_value(std::string_view value) noexcept;

/// The node that sessions belong to by default. It has no agent, so no agent's failure ends the sessions.
inline constexpr std::string_view usual_node = "holdfast-sessions";

/// The succession that follows exactly this description. Nothing if there is none, or if it is malformed.
std::optional<succession> succession_in(std::string_view value, std::string_view description);

}  // namespace holdfast::protocol

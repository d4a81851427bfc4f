// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/base/time.hpp"

namespace holdfast::protocol {

// The value of an entry is the description, which may end with a stamp, and after it the succession (succession.hpp).

/// The largest size in bytes of a description, its stamp included, in our entries. A grant keeps at most this much of
/// the description in an entry of another process.
inline constexpr std::size_t description_max = 1536;

/// The text with which a succession begins.
inline constexpr std::string_view succession_opening = "\n{\"Limit\":";

/// The description in the value of an entry. If the value has no succession, but the description itself contains text
/// that begins like one, only the part before that text is returned.
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
/// are in milliseconds. A space and the node follow if the node is not `default_session_node`. If it is the agent's own
/// node, only the space follows. A line `~` precedes the stamp if the maker accepts grants (acceptance.hpp). A process
/// that grants the entry keeps all of this as a part of the description. Without `lease`, the stamp consists of the
/// time only. There is no stamp if the time is before 1970.
std::string with_stamp(std::string_view description, duration since_1970, const std::optional<entry_lease>& lease = {});
/// The parts of such a value, without the succession.
struct entry_value {
  std::string_view description;
  std::optional<std::chrono::seconds> since_1970{};
  std::optional<entry_lease> lease{};
};
entry_value parse_entry_value(std::string_view value) noexcept;

}  // namespace holdfast::protocol

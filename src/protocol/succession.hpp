#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/snapshot.hpp"
#include "protocol/time.hpp"

namespace holdfast::protocol {

/// Who comes next in the queue, as whoever granted a slot saw it. It travels in the value of the entry that the grant
/// touches, behind its description, so that the new holder can hand the slot on without a look at the whole queue.
/// It may be out of date, or forged: a write that rests on it is guarded by the index of each entry that it names.
template <class Contender>
struct succession_of {
  std::vector<Contender> next{};  ///< the first of those that wait, without gaps; never touched since they joined
  std::size_t behind = 0;         ///< how many more were seen to wait; beyond `behind_max`, that
  std::uint32_t limit = 1;        ///< that the record names: if 1, then nobody else
  std::optional<std::uint32_t> number{};  ///< which the grant has locked for the granted
};
using succession = succession_of<contender>;
using succession_view = succession_of<const contender*>;

/// How many of those that wait are named at most, and in how many bytes.
inline constexpr std::size_t succession_max = 16;
inline constexpr std::size_t succession_bytes_max = 2048;
inline constexpr std::size_t behind_max = 100'000;

/// No entry of ours says more of itself, its stamp included. Of what others' say, a grant keeps so much.
inline constexpr std::size_t description_max = 1536;

/// An entry's value: the description, and who comes next if anybody does.
std::string with_succession(std::string_view description, const succession_view& s);

/// The description in such a value; or its beginning, if it looks like a succession itself.
std::string_view description_in(std::string_view value) noexcept;

/// Another value that says the same, but for who comes next: a write of it wakes whoever watches the entry.
std::string touched(std::string_view value);

/// For how long whoever has made an entry may believe in its session at most, should that end without a word: its TTL
/// minus its margin. And which node of Consul's catalog the session ends with.
struct entry_lease {
  duration ttl{};
  duration margin{};
  std::string_view node{};  ///< empty: its agent's own
  bool accepts = false;     ///< a grant by another process counts only when its maker accepts it (acceptance.hpp)
  bool operator==(const entry_lease&) const = default;
};
/// The description, since when it stands there, and for how long its maker may believe in it: a line of its own, `@`
/// and the seconds since 1970, `+` and the TTL, `-` and the margin, both in milliseconds; a space and the node follow
/// where that is not the usual one, and only the space where it is the agent's own. Before it stands a line `~` if the
/// maker accepts grants. A process that grants keeps all of this as a part of the description.
std::string with_stamp(std::string_view description, duration since_1970, const std::optional<entry_lease>& lease = {});
/// What such a value says, without the stamp and without who comes next.
struct entry_value {
  std::string_view description;
  std::optional<std::chrono::seconds> since_1970{};
  std::optional<entry_lease> lease{};
};
entry_value parse_entry_value(std::string_view value) noexcept;

/// The node that sessions belong to unless told otherwise: no agent stands behind it, and none ends them.
inline constexpr std::string_view usual_node = "holdfast-sessions";

/// Nothing if there is none behind exactly this description, or if it is malformed.
std::optional<succession> succession_in(std::string_view value, std::string_view description);

}  // namespace holdfast::protocol

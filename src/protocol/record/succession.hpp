// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// An entry's value: the description, and the succession if it names a contender or a number.
std::string with_succession(std::string_view description, const succession_view& s);

/// The succession that follows exactly this description. Nothing if there is none, or if it is malformed.
std::optional<succession> succession_in(std::string_view value, std::string_view description);

}  // namespace holdfast::protocol

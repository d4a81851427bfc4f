// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <cstddef>
#include <utility>

// This header derives the list of an enumeration from its `to_string`. That function must be constexpr. It must return
// one text for all values that are not enumerators, and other texts for the enumerators. Our builds refuse a `switch`
// that leaves out an enumerator. So the list is complete: an enumerator that is not in `to_string` does not compile.
namespace holdfast::detail {

/// All enumerators have values below this one.
inline constexpr std::size_t enumerators_end = 128;

template <class Enum>
constexpr bool is_enumerator(std::size_t value) noexcept {
  return to_string(static_cast<Enum>(value)) != to_string(static_cast<Enum>(enumerators_end));
}

/// 0, or 1 if 0 is not an enumerator, as with error codes.
template <class Enum>
inline constexpr std::size_t first_enumerator = is_enumerator<Enum>(0) ? 0 : 1;

/// The largest value plus 1.
template <class Enum>
inline constexpr std::size_t enumerators_size = [] {
  std::size_t end = first_enumerator<Enum>;
  while (end < enumerators_end && is_enumerator<Enum>(end)) ++end;
  return end;
}();

/// Returns a std::array of all enumerators, in the order of their values.
template <class Enum>
constexpr auto enumerators() noexcept {
  constexpr std::size_t first = first_enumerator<Enum>, end = enumerators_size<Enum>;
  static_assert(end > first, "to_string does not know the first enumerator");
  static_assert(
      [] {
        for (std::size_t value = end; value < enumerators_end; ++value)
          if (is_enumerator<Enum>(value)) return false;
        return true;
      }(),
      "the values of the enumerators have a gap");
  return []<std::size_t... Index>(std::index_sequence<Index...>) {
    return std::array<Enum, end - first>{static_cast<Enum>(first + Index)...};
  }(std::make_index_sequence<end - first>());
}

/// The place of a value in an array of `enumerators_size` elements: its number, or 0 if the value is not an enumerator.
/// So no value leads out of the array.
template <class Enum>
constexpr std::size_t index_of(Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return index < enumerators_size<Enum> ? index : 0;
}

}  // namespace holdfast::detail

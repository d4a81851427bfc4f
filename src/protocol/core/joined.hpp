// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <type_traits>
#include <variant>

namespace holdfast::protocol {

template <class, class>
struct join;
template <class... First, class... Second>
struct join<std::variant<First...>, std::variant<Second...>> {
  using type = std::variant<First..., Second...>;
};
/// A variant of the alternatives of both variants, in their order.
template <class First, class Second>
using joined = typename join<First, Second>::type;

/// True if a variant has this alternative.
template <class Type, class Variant>
inline constexpr bool is_alternative = false;
template <class Type, class... Each>
inline constexpr bool is_alternative<Type, std::variant<Each...>> = (std::is_same_v<Type, Each> || ...);

}  // namespace holdfast::protocol

#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

namespace holdfast::consul::detail {

/// The character at the front of `text`, which is not empty, and how many bytes it takes: 0 if they are not UTF-8.
std::pair<char32_t, std::size_t> front_character(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/locale/utf.hpp>
#include <cstddef>
#include <string_view>
#include <utility>

namespace holdfast::net {

/// Returns the first character of `text` and its size in bytes. The size is 0 if the text does not begin with valid
/// UTF-8. `text` must not be empty.
inline std::pair<char32_t, std::size_t> front_character(std::string_view text) {
  auto at = text.begin();
  const auto character = boost::locale::utf::utf_traits<char>::decode(at, text.end());
  if (!boost::locale::utf::is_valid_codepoint(character)) return {};
  return {character, static_cast<std::size_t>(at - text.begin())};
}

inline bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = front_character(text).second;
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace holdfast::net

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

/// True if the text is valid UTF-8, and `accepts` returns true for each of its characters.
template <class Predicate>
bool is_utf8_of(std::string_view text, Predicate accepts) {
  while (!text.empty()) {
    const auto [character, size] = front_character(text);
    if (size == 0 || !accepts(character)) return false;
    text.remove_prefix(size);
  }
  return true;
}

inline bool is_utf8(std::string_view text) {
  return is_utf8_of(text, [](char32_t) { return true; });
}

/// True if the text is valid UTF-8 without control characters (C0, DEL and C1), which could disturb a log or a
/// terminal.
inline bool is_plain_text(std::string_view text) {
  return is_utf8_of(text, [](char32_t c) { return c >= 0x20 && (c < 0x7f || c >= 0xa0); });
}

}  // namespace holdfast::net

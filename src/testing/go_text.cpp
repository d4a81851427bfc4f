// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "go_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "consul/encoding/duration.hpp"
#include "net/utf8.hpp"

namespace holdfast::testing::detail {
namespace {

// Prints up to nine digits after the decimal point, without trailing zeros.
std::string decimal(std::int64_t count, std::int64_t unit, std::string_view name) {
  std::string text = std::to_string(count / unit);
  std::string fraction;
  for (std::int64_t rest = count % unit, digit = unit / 10; rest != 0; rest %= digit, digit /= 10)
    fraction += static_cast<char>('0' + rest / digit);
  if (!fraction.empty()) text += '.' + fraction;
  return text.append(name);
}

constexpr std::string_view digits = "0123456789abcdef";
constexpr std::size_t session_id_size = 36;
constexpr std::size_t session_id_dashes = 4;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// The middle of the error text for an invalid duration: the complaint, without the text itself. `text` has no sign.
std::string duration_complaint(std::string_view text) {
  constexpr std::string_view units[] = {"ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h"};
  const auto number_goes_on = [](char c) { return is_digit(c) || c == '.'; };
  while (!text.empty()) {
    const auto unit = std::find_if_not(text.begin(), text.end(), number_goes_on);
    const std::string_view number(text.begin(), unit);
    if (number.find_first_of("0123456789") == std::string_view::npos || number.find('.') != number.rfind('.')) break;
    const auto next = std::find_if(unit, text.end(), number_goes_on);
    const std::string_view name(unit, next);
    if (name.empty()) return "missing unit in duration ";
    if (std::find(std::begin(units), std::end(units), name) == std::end(units))
      return "unknown unit " + go_quoted(name) + " in duration ";
    text = std::string_view(next, text.end());
  }
  return "invalid duration ";
}

}  // namespace

bool is_hexadecimal(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::optional<std::string> parse_duration(std::string_view text, std::chrono::nanoseconds& out) {
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const std::string_view rest = text.substr(has_sign ? 1 : 0);
  if (rest.empty() || !consul::detail::parse_go_duration(rest, out))
    return "time: " + duration_complaint(rest) + go_quoted(text);
  if (text.starts_with('-')) out = -out;
  return std::nullopt;
}

std::optional<std::string> malformed_session_id(std::string_view id) {
  const auto complaint = [](std::string text) { return "failed session lookup: index error: " + std::move(text); };
  if (id.size() != session_id_size) return complaint("UUID must be 36 characters");
  const auto dashes = static_cast<std::size_t>(std::count(id.begin(), id.end(), '-'));
  if (dashes > session_id_dashes)
    return complaint("UUID should have maximum of 4 \"-\"; got " + std::to_string(dashes));
  if ((id.size() - dashes) % 2 != 0) return complaint("Input (without hyphens) must be even length");
  const auto wrong = std::find_if(id.begin(), id.end(), [](char c) { return c != '-' && !is_hexadecimal(c); });
  if (wrong != id.end()) {
    const auto byte = static_cast<unsigned char>(*wrong);
    std::string text = "Invalid UUID: encoding/hex: invalid byte: U+00";
    for (const int shift : {4, 0}) text += "0123456789ABCDEF"[byte >> shift & 15];
    if (byte > 0x20 && byte < 0x7f) text.append(" '").append(1, *wrong).append("'");
    return complaint(std::move(text));
  }
  return std::nullopt;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = net::front_character(text).second;
    out += size != 0 ? text.substr(0, size) : "\xef\xbf\xbd";
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

std::string go_quoted(std::string_view text) {
  constexpr std::string_view named = "\a\b\t\n\v\f\r";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c != '\0' && named.find(c) != std::string_view::npos) {
      out += '\\';
      out += "abtnvfr"[named.find(c)];
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string go_duration(std::chrono::nanoseconds time) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t count = time.count();
  if (count == 0) return "0s";
  if (count < 1'000) return std::to_string(count) + "ns";
  if (count < 1'000'000) return decimal(count, 1'000, "\u00b5s");
  if (count < second) return decimal(count, 1'000'000, "ms");
  std::string text;
  const std::int64_t hours = count / (3600 * second);
  const std::int64_t minutes = count / (60 * second) % 60;
  if (hours != 0) text += std::to_string(hours) + 'h';
  if (hours != 0 || minutes != 0) text += std::to_string(minutes) + 'm';
  return text + decimal(count % (60 * second), second, "s");
}

}  // namespace holdfast::testing::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/entry_value.hpp"

#include <charconv>
#include <cstdint>
#include <holdfast/session_defaults.hpp>
#include <system_error>

namespace holdfast::protocol {

namespace {

constexpr std::string_view stamp_opening = "\n@";
constexpr std::string_view accepts_line = "\n~";
/// A time in the year 2255. Times after the year 2262 would overflow a clock that counts nanoseconds.
constexpr std::int64_t stamp_max = 9'000'000'000;

constexpr std::chrono::milliseconds ttl_max = std::chrono::hours(24);

/// Reads a number at the front of `text`, and removes it from there.
bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::string touched(std::string_view value) {
  const std::string_view description = description_in(value);
  std::string other(description);
  return description == value ? other.append(succession_opening).append("1}") : other;
}

std::string with_stamp(std::string_view description, duration since_1970, const std::optional<entry_lease>& lease) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_1970).count();
  std::string value(description);
  if (seconds <= 0) return value;
  if (lease && lease->accepts) value.append(accepts_line);
  value.append(stamp_opening).append(std::to_string(seconds));
  if (!lease) return value;
  const auto milliseconds = [](duration d) {
    return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(d).count());
  };
  value.append("+").append(milliseconds(lease->ttl)).append("-").append(milliseconds(lease->margin));
  if (lease->node != default_session_node) value.append(" ").append(lease->node);
  return value;
}

entry_value parse_entry_value(std::string_view value) noexcept {
  const std::string_view text = description_in(value);
  const std::size_t at = text.rfind(stamp_opening);
  if (at == std::string_view::npos) return {text};
  std::string_view rest = text.substr(at + stamp_opening.size());
  std::int64_t seconds = 0;
  if (!take_number(rest, seconds) || seconds <= 0 || seconds > stamp_max) return {text};
  entry_value parsed{text.substr(0, at), std::chrono::seconds(seconds)};
  if (rest.empty()) return parsed;
  std::int64_t ttl = 0, margin = 0;
  const auto takes = [&rest](char c) { return rest.starts_with(c) && (rest.remove_prefix(1), true); };
  const bool is_lease = takes('+') && take_number(rest, ttl) && takes('-') && take_number(rest, margin);
  if (!is_lease || margin < 0 || margin > ttl || ttl > ttl_max.count()) return {text};
  parsed.lease = entry_lease{std::chrono::milliseconds(ttl), std::chrono::milliseconds(margin), default_session_node};
  if (parsed.description.ends_with(accepts_line)) {
    parsed.description.remove_suffix(accepts_line.size());
    parsed.lease->accepts = true;
  }
  if (rest.empty()) return parsed;
  if (!takes(' ')) return {text};
  parsed.lease->node = rest;
  return parsed;
}

std::string_view description_in(std::string_view value) noexcept {
  return value.substr(0, value.rfind(succession_opening));
}

}  // namespace holdfast::protocol

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// How Go programs write values in their messages.
namespace holdfast::testing::detail {

/// `%q`, exact for printable text and for control characters below 0x80.
std::string go_quoted(std::string_view text);
/// As Go's JSON reads and writes text: each byte that belongs to no UTF-8 character is U+FFFD.
std::string valid_utf8(std::string_view text);
bool is_hexadecimal(char c) noexcept;
/// `strings.ToLower`, exact for ASCII.
std::string lower_case(std::string_view text);
/// `%v` of a duration: "10s", "24h0m0s", "1.5s", "20ms".
std::string go_duration(std::chrono::nanoseconds time);
/// `time.ParseDuration`: its complaint if the text is no duration.
std::optional<std::string> parse_duration(std::string_view text, std::chrono::nanoseconds& out);
/// What Consul says if it looks up a session whose id is no UUID. It does not care where the four dashes are.
std::optional<std::string> malformed_session_id(std::string_view id);

}  // namespace holdfast::testing::detail

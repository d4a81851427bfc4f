// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// How Go programs, Consul among them, print and parse values.
namespace holdfast::testing::detail {

/// `%q`, exact for printable text and for control characters below 0x80.
std::string go_quoted(std::string_view text);
/// Converts text as Go's JSON package does: each byte that is not part of a UTF-8 character becomes U+FFFD.
std::string valid_utf8(std::string_view text);
bool is_hexadecimal(char c) noexcept;
/// `strings.ToLower`, exact for ASCII.
std::string lower_case(std::string_view text);
/// `%v` of a duration: "10s", "24h0m0s", "1.5s", "20ms".
std::string go_duration(std::chrono::nanoseconds time);
/// `time.ParseDuration`. Returns its error text if the text is not a duration.
std::optional<std::string> parse_duration(std::string_view text, std::chrono::nanoseconds& out);
/// The error text of Consul if a session id is not a UUID. Like Consul, it accepts none, two or four dashes at any
/// positions.
std::optional<std::string> malformed_session_id(std::string_view id);

}  // namespace holdfast::testing::detail

#pragma once

#include <chrono>
#include <string>
#include <string_view>

// How Go programs write values in their messages.
namespace holdfast::testing::detail {

/// `%q`, exact for printable text and for control characters below 0x80.
std::string go_quoted(std::string_view text);
/// `%v` of a duration: "10s", "24h0m0s", "1.5s", "20ms".
std::string go_duration(std::chrono::nanoseconds time);

}  // namespace holdfast::testing::detail

#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace holdfast::consul::detail {

/// How durations are written in requests: `15000ms`. Go parses it, and it is exact.
std::string to_go_duration(std::chrono::milliseconds duration);

/// Go's duration syntax without a sign ("1h2m3.5s", "300ms", "0"; the empty string is 0): Consul echoes a session's TTL
/// as its creator wrote it. False for anything else, and beyond what nanoseconds in 64 bits can say.
bool parse_go_duration(std::string_view text, std::chrono::nanoseconds& out) noexcept;

}  // namespace holdfast::consul::detail

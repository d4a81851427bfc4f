// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::cli {

/// The record of `holdfast run --once-per`: when the command last succeeded, and where. The time comes from the wall
/// clock of that host.
struct last_success {
  std::chrono::sys_seconds at{};
  std::string host{};
  bool operator==(const last_success&) const = default;
};

/// The key of the record. It stands beside the lock of `run -n 1`. No other command changes it.
std::string key_of_last_success(const std::string& prefix);
std::string format(const last_success& record);
/// Empty if the text is no such record.
std::optional<last_success> parse_last_success(std::string_view text);

/// Clocks of hosts differ. So a record whose time is at most this far in the future counts as one of this moment. A
/// record of a later time does not count.
inline constexpr std::chrono::seconds clock_difference_max{60};
/// Whether the record says that nothing has to be done now, because less than `period` has passed.
bool is_recent(const last_success& record, std::chrono::system_clock::time_point now, std::chrono::nanoseconds period);
/// For people: "2026-11-30T01:40:12Z on db1".
std::string shown(const last_success& record);

}  // namespace holdfast::cli

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>

namespace holdfast::cli {

/// A message of the program to its guard. A message is one packet: this header, and behind `start` the additional
/// variables of the environment, each with a zero byte at its end.
struct request {
  enum class kind : std::uint32_t { start, lease_end, forward, stop, kill, resume };
  kind what;
  /// 1 if the command gets the terminal (start, resume), a number of a signal (forward).
  std::int32_t number = 0;
  /// The end of the lease, in ns on CLOCK_BOOTTIME (start, lease_end).
  std::int64_t lease_end = 0;
};

/// The longest packet. Longer environments of `start` are refused.
inline constexpr std::size_t message_max = 64 << 10;
/// At most this many descriptors come with `start`.
inline constexpr std::size_t files_max = 16;

/// The descriptors and settings that the guard has from its parent.
struct guard_settings {
  int socket;
  int terminal;  ///< -1 if there is none
  char* const* arguments;
  bool pass_stdin;
  std::int64_t grace;  ///< ns
};

/// The guard process. Does not return.
[[noreturn]] void run_guard(const guard_settings& settings);

}  // namespace holdfast::cli

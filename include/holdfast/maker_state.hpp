// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// The state of the process that made a session, as the run directory of this host shows it.
enum class maker_state {
  unknown,  ///< nothing, for example because the process runs on another host
  lives,    ///< it exists, or a process that has inherited the session's file does; it may be stopped
  gone,     ///< it does not exist any more, nor does any process that has inherited the file
};

constexpr std::string_view to_string(maker_state state) noexcept {
  switch (state) {
    case maker_state::unknown:
      return "unknown";
    case maker_state::lives:
      return "lives";
    case maker_state::gone:
      return "gone";
  }
  return {};
}

/// Looks for the file of the session in the run directory, `tuning::run_directory` or by default the usual one. This
/// takes a few system calls, and sends nothing. Thread-safe. Throws nothing but `std::bad_alloc`.
HOLDFAST_EXPORT maker_state maker_of(const std::string& session, const std::optional<std::string>& run_directory = {});

}  // namespace holdfast

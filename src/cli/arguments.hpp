// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::cli {

/// A command line that cannot be understood. The text is for the user.
class usage_error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Reads a duration as Go's programs do: "1h2m3.5s", "300ms". A number without a unit is refused, except 0.
/// Unlike in Go, a sign is refused, and "us" is the only unit of microseconds. Throws usage_error.
std::chrono::nanoseconds parse_duration(std::string_view text);

/// The arguments of `holdfast run` and `holdfast elect`. The rules are those of `consul lock`, except for `direct`.
struct run_arguments {
  std::vector<std::string> flags;    ///< each "--name=value"
  std::vector<std::string> command;  ///< the arguments behind the prefix
  std::string prefix;                ///< empty if it is missing
  bool direct = false;               ///< "--" stood between prefix and command: the command runs without a shell
};

enum class flag_kind { unknown, boolean, value };

/// Splits the arguments. A flag has one dash or two, and its value stands behind "=" or, unless it is a boolean, in the
/// next argument. Flags end at "--", or at the first argument that is no flag. So the flags of the command are not
/// ours. Throws usage_error.
run_arguments split_run(const std::vector<std::string>& words,
                        const std::function<flag_kind(const std::string&)>& kind_of);

/// `text` without control characters, as they are in UTF-8: each is replaced by "?". For texts that come from outside,
/// for example from Consul.
std::string printable(std::string_view text);

}  // namespace holdfast::cli

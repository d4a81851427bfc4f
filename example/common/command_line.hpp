// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// The arguments of a command line. Each function removes its option with the value. If an option is given twice, the
/// last value counts. If an argument is wrong, the functions throw std::invalid_argument with a text for the user.
class arguments {
public:
  explicit arguments(std::vector<std::string> words);

  bool flag(std::string_view option);
  std::string text(std::string_view option, std::string otherwise);
  int number(std::string_view option, int otherwise, int least, int most);
  /// Throws if an argument is left, which is most likely a misspelt option.
  void end() const;

  /// The value of --consul, which all examples accept. Empty if it was not given.
  const std::string& consul() const noexcept { return consul_; }

private:
  std::vector<std::string> words_;
  std::string consul_;
};

/// The body of every example's main. It prints the help on request, or else runs `body` and prints the error if that
/// fails. `help` must end with the example's own options, because the common options follow. Returns the exit status:
/// the result of `body`, 2 for a wrong command line, or 1 for a failure.
int run(int argc, char** argv, std::string_view help, const std::function<int(arguments&)>& body);

}  // namespace example

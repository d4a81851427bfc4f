#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace example {

/// The words of a command line. Each option is taken out with its value; given twice, the last one counts. What is
/// wrong with them is thrown as std::invalid_argument, for people to read.
class arguments {
public:
  explicit arguments(std::vector<std::string> words);

  bool flag(std::string_view option);
  std::string text(std::string_view option, std::string otherwise);
  int number(std::string_view option, int otherwise, int least, int most);
  /// Throws if something is left: a misspelt option, most likely.
  void end() const;

  /// The value of --consul, which all examples have; empty: it was not given.
  const std::string& consul() const noexcept { return consul_; }

private:
  std::vector<std::string> words_;
  std::string consul_;
};

/// What every example's main does: prints the help if it is asked for (`help` ends with the example's own options),
/// runs the body, and says what went wrong. The exit status is the body's; 2 for a wrong command line; 1 for a failure.
int run(int argc, char** argv, std::string_view help, const std::function<int(arguments&)>& body);

}  // namespace example

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "command_line.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <holdfast/error.hpp>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace example {

namespace {

constexpr std::string_view help_on_consul = R"(
  --consul URL     a real agent, say http://127.0.0.1:8500; CONSUL_HTTP_TOKEN is used if it is set
  --help           this

Without --consul no Consul is needed: the program runs on a fake in its own process, which is for development and
tests, and forgets everything at the end. CONSUL_HTTP_ADDR is not read, so that no example writes to a Consul that it was
not told to use.
)";

}  // namespace

arguments::arguments(std::vector<std::string> words) : words_(std::move(words)), consul_(text("--consul", {})) {}

bool arguments::flag(std::string_view option) { return std::erase(words_, option) != 0; }

std::string arguments::text(std::string_view option, std::string otherwise) {
  for (auto at = words_.begin(); (at = std::find(at, words_.end(), option)) != words_.end();) {
    const auto value = at + 1;
    if (value == words_.end() || value->empty())
      throw std::invalid_argument(std::string(option) + " wants a value; see --help");
    otherwise = std::move(*value);
    at = words_.erase(at, value + 1);
  }
  return otherwise;
}

int arguments::number(std::string_view option, int otherwise, int least, int most) {
  const std::string given = text(option, std::to_string(otherwise));
  int value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc() || end != given.data() + given.size() || value < least || value > most)
    throw std::invalid_argument(std::string(option) + " wants a number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", not \"" + given + "\"");
  return value;
}

void arguments::end() const {
  if (!words_.empty()) throw std::invalid_argument("unknown option " + words_.front() + "; see --help");
}

int run(int argc, char** argv, std::string_view help, const std::function<int(arguments&)>& body) {
  std::string consul;
  try {
    arguments given(std::vector<std::string>(argv + 1, argv + argc));
    if (given.flag("--help") || given.flag("-h")) {
      std::cout << help << help_on_consul.substr(1);
      return 0;
    }
    consul = given.consul();
    return body(given);
  } catch (const std::invalid_argument& misuse) {
    std::cerr << misuse.what() << '\n';
    return 2;
  } catch (const holdfast::system_error& failed) {
    std::cerr << failed.what() << '\n';
    if (!consul.empty() && failed.code() == holdfast::condition::unavailable)
      std::cerr << "Is a Consul agent running at " << consul << "? Without --consul, this program needs none.\n";
  } catch (const std::exception& failed) {
    std::cerr << failed.what() << '\n';
  }
  return 1;
}

}  // namespace example

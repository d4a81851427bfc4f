// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/arguments.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

namespace holdfast::cli {

std::chrono::nanoseconds parse_duration(std::string_view text) {
  const auto refuse = [text] {
    return usage_error("\"" + printable(text) + "\" is not a duration such as 10s, 500ms or 1h2m3.5s");
  };
  if (text == "0") return std::chrono::nanoseconds::zero();
  static constexpr std::pair<std::string_view, double> units[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                                                                  {"s", 1e9}, {"m", 6e10}, {"h", 3.6e12}};
  double sum = 0;
  std::string_view rest = text;
  if (rest.empty()) throw refuse();
  while (!rest.empty()) {
    const std::size_t number_end = rest.find_first_not_of("0123456789.");
    if (number_end == 0 || number_end == rest.npos) throw refuse();
    double number = 0;
    const auto [end, bad] = std::from_chars(rest.data(), rest.data() + number_end, number, std::chars_format::fixed);
    if (bad != std::errc() || end != rest.data() + number_end) throw refuse();
    rest.remove_prefix(number_end);
    const std::size_t unit_end = std::min(rest.find_first_of("0123456789."), rest.size());
    double factor = 0;
    for (const auto& [unit, size] : units)
      if (rest.substr(0, unit_end) == unit) factor = size;
    if (factor == 0) throw refuse();
    rest.remove_prefix(unit_end);
    sum += number * factor;
  }
  if (sum > 9e18) throw refuse();
  return std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(sum)));
}

run_arguments split_run(const std::vector<std::string>& words,
                        const std::function<flag_kind(const std::string&)>& kind_of) {
  run_arguments found;
  std::size_t at = 0;
  for (; at < words.size(); ++at) {
    std::string_view word = words[at];
    if (word.size() < 2 || word[0] != '-') break;
    if (word == "--") {
      ++at;
      break;
    }
    word.remove_prefix(word[1] == '-' ? 2 : 1);
    const std::size_t equals = word.find('=');
    const std::string name(word.substr(0, equals));
    const flag_kind kind = kind_of(name);
    if (kind == flag_kind::unknown) throw usage_error("there is no flag -" + printable(name));
    std::string value = "true";
    if (equals != word.npos) {
      value = word.substr(equals + 1);
    } else if (kind == flag_kind::value) {
      if (at + 1 == words.size()) throw usage_error("the flag -" + name + " needs a value");
      value = words[++at];
    }
    std::string flag = "--";
    flag.append(name).append("=").append(value);
    found.flags.push_back(std::move(flag));
  }
  if (at < words.size()) found.prefix = words[at++];
  if (at < words.size() && words[at] == "--") {
    found.direct = true;
    ++at;
  }
  found.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return found;
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const auto next = static_cast<unsigned char>(at + 1 < text.size() ? text[at + 1] : 0);
    const bool is_two_byte_control = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (is_two_byte_control) ++at;
    out += is_two_byte_control || byte < 0x20 || byte == 0x7f ? '?' : text[at];
  }
  return out;
}

}  // namespace holdfast::cli

#include "go_text.hpp"

#include <array>
#include <cstdint>

namespace holdfast::testing::detail {
namespace {

// At most nine digits behind the point, without zeros at the end.
std::string decimal(std::int64_t count, std::int64_t unit, std::string_view name) {
  std::string text = std::to_string(count / unit);
  std::string fraction;
  for (std::int64_t rest = count % unit, digit = unit / 10; rest != 0; rest %= digit, digit /= 10)
    fraction += static_cast<char>('0' + rest / digit);
  if (!fraction.empty()) text += '.' + fraction;
  return text.append(name);
}

}  // namespace

std::string go_quoted(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  constexpr std::string_view named = "\a\b\t\n\v\f\r";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c != '\0' && named.find(c) != std::string_view::npos) {
      out += '\\';
      out += "abtnvfr"[named.find(c)];
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string go_duration(std::chrono::nanoseconds time) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t count = time.count();
  if (count == 0) return "0s";
  if (count < 1'000) return std::to_string(count) + "ns";
  if (count < 1'000'000) return decimal(count, 1'000, "\u00b5s");
  if (count < second) return decimal(count, 1'000'000, "ms");
  std::string text;
  const std::int64_t hours = count / (3600 * second);
  const std::int64_t minutes = count / (60 * second) % 60;
  if (hours != 0) text += std::to_string(hours) + 'h';
  if (hours != 0 || minutes != 0) text += std::to_string(minutes) + 'm';
  return text + decimal(count % (60 * second), second, "s");
}

}  // namespace holdfast::testing::detail

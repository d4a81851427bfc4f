// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/duration.hpp"

#include <cstdint>
#include <limits>

namespace holdfast::consul::detail {
namespace {

struct unit {
  std::string_view name;
  std::int64_t nanoseconds;
};

// A name comes before every shorter name that it begins with ("ms" before "m").
constexpr unit units[] = {
    {"ns", 1},
    {"us", 1'000},
    {"\xc2\xb5s", 1'000},  // U+00B5 micro sign
    {"\xce\xbcs", 1'000},  // U+03BC mu
    {"ms", 1'000'000},
    {"s", 1'000'000'000},
    {"m", 60'000'000'000},
    {"h", 3'600'000'000'000},
};

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

bool is_digit(std::string_view text) noexcept { return !text.empty() && text[0] >= '0' && text[0] <= '9'; }

// sum += count * scale, unless that overflows.
bool add_scaled(std::int64_t& sum, std::int64_t count, std::int64_t scale) noexcept {
  if (count > (most - sum) / scale) return false;
  sum += count * scale;
  return true;
}

}  // namespace

std::string to_go_duration(std::chrono::milliseconds duration) { return std::to_string(duration.count()) + "ms"; }

bool parse_go_duration(std::string_view text, std::chrono::nanoseconds& out) noexcept {
  std::int64_t sum = 0;
  if (text == "0") text = {};
  while (!text.empty()) {
    std::int64_t whole = 0;
    bool any_digits = false;
    for (; is_digit(text); text.remove_prefix(1)) {
      any_digits = true;
      const int digit = text[0] - '0';
      if (whole > (most - digit) / 10) return false;
      whole = whole * 10 + digit;
    }

    // The fraction in units of 10^-9. Further digits are dropped.
    std::int64_t fraction = 0;
    if (text.starts_with('.')) {
      std::int64_t weight = 100'000'000;
      for (text.remove_prefix(1); is_digit(text); text.remove_prefix(1)) {
        any_digits = true;
        fraction += (text[0] - '0') * weight;
        weight /= 10;
      }
    }
    if (!any_digits) return false;

    const unit* found = nullptr;
    for (const unit& u : units) {
      if (text.starts_with(u.name)) {
        found = &u;
        break;
      }
    }
    if (found == nullptr || !add_scaled(sum, whole, found->nanoseconds)) return false;
    // Computes fraction * nanoseconds / 10^9 in an order that cannot overflow: the product is below 10^9 * 3.6 * 10^9.
    if (!add_scaled(sum, fraction * (found->nanoseconds / 1'000) / 1'000'000, 1)) return false;
    text.remove_prefix(found->name.size());
  }
  out = std::chrono::nanoseconds(sum);
  return true;
}

}  // namespace holdfast::consul::detail

#include "base64.hpp"

#include <array>
#include <cstdint>

namespace holdfast::consul::detail {
namespace {

constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> make_digits() {
  std::array<std::uint8_t, 256> digits{};
  digits.fill(no_digit);
  for (std::uint8_t i = 0; i < 64; ++i) digits[static_cast<unsigned char>(alphabet[i])] = i;
  return digits;
}

constexpr auto digits = make_digits();

std::uint32_t byte_at(std::string_view bytes, std::size_t i) noexcept { return static_cast<unsigned char>(bytes[i]); }

std::uint32_t digit_at(std::string_view text, std::size_t i) noexcept {
  return digits[static_cast<unsigned char>(text[i])];
}

}  // namespace

void append_base64(std::string& out, std::string_view bytes) {
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  std::size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
    out += {alphabet[group >> 18], alphabet[group >> 12 & 63], alphabet[group >> 6 & 63], alphabet[group & 63]};
  }
  if (bytes.size() - i == 1) {
    const std::uint32_t group = byte_at(bytes, i) << 16;
    out += {alphabet[group >> 18], alphabet[group >> 12 & 63], '=', '='};
  } else if (bytes.size() - i == 2) {
    const std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8;
    out += {alphabet[group >> 18], alphabet[group >> 12 & 63], alphabet[group >> 6 & 63], '='};
  }
}

bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.size() % 4 != 0) return false;
  out.reserve(text.size() / 4 * 3);

  std::size_t padding = 0;
  if (text.ends_with("==")) {
    padding = 2;
  } else if (text.ends_with('=')) {
    padding = 1;
  }
  const std::size_t digit_count = text.size() - padding;

  std::uint32_t group = 0;
  for (std::size_t i = 0; i < digit_count; ++i) {
    const std::uint32_t digit = digit_at(text, i);
    if (digit == no_digit) return false;
    group = group << 6 | digit;
    if (i % 4 == 3) {
      out += {static_cast<char>(group >> 16), static_cast<char>(group >> 8), static_cast<char>(group)};
      group = 0;
    }
  }
  if (padding == 1) {
    if ((group & 3) != 0) return false;
    out += {static_cast<char>(group >> 10), static_cast<char>(group >> 2)};
  } else if (padding == 2) {
    if ((group & 15) != 0) return false;
    out += static_cast<char>(group >> 4);
  }
  return true;
}

}  // namespace holdfast::consul::detail

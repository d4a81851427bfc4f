// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/base64.hpp"

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
  const std::size_t before = out.size();
  out.resize(before + (bytes.size() + 2) / 3 * 4);
  char* to = out.data() + before;
  std::size_t i = 0;
  for (; i + 3 <= bytes.size(); i += 3) {
    const std::uint32_t group = byte_at(bytes, i) << 16 | byte_at(bytes, i + 1) << 8 | byte_at(bytes, i + 2);
    *to++ = alphabet[group >> 18];
    *to++ = alphabet[group >> 12 & 63];
    *to++ = alphabet[group >> 6 & 63];
    *to++ = alphabet[group & 63];
  }
  const std::size_t left = bytes.size() - i;
  if (left == 0) return;
  const std::uint32_t group = byte_at(bytes, i) << 16 | (left == 2 ? byte_at(bytes, i + 1) << 8 : 0);
  *to++ = alphabet[group >> 18];
  *to++ = alphabet[group >> 12 & 63];
  *to++ = left == 2 ? alphabet[group >> 6 & 63] : '=';
  *to++ = '=';
}

bool decode_base64(std::string_view text, std::string& out) {
  out.clear();
  if (text.size() % 4 != 0) return false;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  const std::size_t whole = (text.size() - padding) / 4 * 4;
  out.resize(text.size() / 4 * 3 - padding);
  char* to = out.data();

  // `no_digit` has bits that no digit has, so one comparison at the end finds every character that is not a digit.
  std::uint32_t all = 0;
  for (std::size_t i = 0; i < whole; i += 4) {
    const std::uint32_t a = digit_at(text, i), b = digit_at(text, i + 1), c = digit_at(text, i + 2),
                        d = digit_at(text, i + 3);
    all |= a | b | c | d;
    const std::uint32_t group = a << 18 | b << 12 | c << 6 | d;
    *to++ = static_cast<char>(group >> 16);
    *to++ = static_cast<char>(group >> 8);
    *to++ = static_cast<char>(group);
  }
  if (padding != 0) {
    const std::uint32_t a = digit_at(text, whole), b = digit_at(text, whole + 1);
    const std::uint32_t c = padding == 1 ? digit_at(text, whole + 2) : 0;
    all |= a | b | c;
    const std::uint32_t group = a << 18 | b << 12 | c << 6;
    if ((padding == 1 ? group & 0xff : group & 0xffff) != 0) return false;  // stray bits
    *to++ = static_cast<char>(group >> 16);
    if (padding == 1) *to++ = static_cast<char>(group >> 8);
  }
  return all < 64;
}

}  // namespace holdfast::consul::detail

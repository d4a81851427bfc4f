// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast::rabbitmq::detail {

/// Reads the number whose first byte is at `at`. All its bytes must be there.
template <std::unsigned_integral Number>
Number big_endian(std::string_view bytes, std::size_t at) noexcept {
  Number number = 0;
  for (const char each : bytes.substr(at, sizeof(Number)))
    number = static_cast<Number>((number << 8) | static_cast<unsigned char>(each));
  return number;
}

template <std::unsigned_integral Number>
void append_big_endian(std::string& out, Number number) {
  for (std::size_t byte = sizeof(Number); byte != 0; --byte)
    out += static_cast<char>((number >> (8 * (byte - 1))) & 0xFF);
}

}  // namespace holdfast::rabbitmq::detail

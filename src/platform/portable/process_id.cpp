// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/process_id.hpp"

#include <random>

namespace holdfast::platform {

std::string process_id() {
  static const std::string drawn = [] {
    std::random_device random;
    std::uniform_int_distribution<unsigned> digit(0, 15);
    std::string text;
    for (int i = 0; i != 8; ++i) text += "0123456789abcdef"[digit(random)];
    return text;
  }();
  return drawn;
}

}  // namespace holdfast::platform

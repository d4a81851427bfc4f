// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/secret_file.hpp"

#include <algorithm>
#include <fstream>
#include <string_view>

namespace holdfast::net {

std::optional<std::string> secret_in_file(const std::string& path, std::size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof()) return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  constexpr std::string_view space = " \t\r\n\v\f";
  text.erase(text.find_last_not_of(space) + 1);
  text.erase(0, std::min(text.find_first_not_of(space), text.size()));
  return text;
}

}  // namespace holdfast::net

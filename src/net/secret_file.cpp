// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/secret_file.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string_view>

namespace holdfast::net {

std::optional<std::string> secret_in_file(const std::string& path, std::size_t bytes_max) {
  // Not a std::ifstream: that of libc++ takes an error, such as that of reading a directory, for the end of the file.
  const std::unique_ptr<std::FILE, decltype([](std::FILE* file) { std::fclose(file); })> file(
      std::fopen(path.c_str(), "rb"));
  if (!file) return std::nullopt;
  std::string text(bytes_max + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0 || text.size() > bytes_max) return std::nullopt;
  constexpr std::string_view space = " \t\r\n\v\f";
  text.erase(text.find_last_not_of(space) + 1);
  text.erase(0, std::min(text.find_first_not_of(space), text.size()));
  return text;
}

}  // namespace holdfast::net

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/locked_files.hpp"

#include <cerrno>

namespace holdfast::platform {

open_file::~open_file() = default;

open_file open_directory(const std::string&) { return open_file(-1); }

bool is_at(const open_file&, const std::string&) { return true; }

void make_private_directory(const std::string&) {}

std::optional<std::vector<std::string>> names_in(const open_file&) { return {}; }

open_file make_locked(const open_file&, const std::string&, const std::string&, std::string_view, int& error) {
  error = ENOSYS;
  return open_file(-1);
}

void remove(const open_file&, const std::string&) {}

bool has_name(const open_file&) { return false; }

lock_finding look(const open_file&, const std::string&) { return {}; }

void remove_unnamed(const open_file&, const std::string&, std::chrono::seconds) {}

void remove_unlocked(const open_file&, const std::string&, const open_file&, std::chrono::seconds) {}

}  // namespace holdfast::platform

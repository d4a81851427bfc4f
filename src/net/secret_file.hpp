// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/detail/export.hpp>
#include <optional>
#include <string>

namespace holdfast::net {

/// Returns the text of a file with a token or a password, without the white space at its ends. Returns nothing if the
/// file cannot be read, or has more than `bytes_max` bytes with that white space.
HOLDFAST_INTERNAL std::optional<std::string> secret_in_file(const std::string& path, std::size_t bytes_max);

}  // namespace holdfast::net

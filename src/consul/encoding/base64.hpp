// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <string>
#include <string_view>

namespace holdfast::consul::detail {

/// Appends base64 in the standard alphabet with padding (RFC 4648, section 4), as Consul writes KV values in JSON.
HOLDFAST_INTERNAL void append_base64(std::string& out, std::string_view bytes);

/// Decodes strictly: no white space, full padding, no stray bits after the last byte. Returns false for other text, and
/// then leaves `out` unspecified.
HOLDFAST_INTERNAL bool decode_base64(std::string_view text, std::string& out);

}  // namespace holdfast::consul::detail

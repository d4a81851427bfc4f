// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::net {

/// Whether the character is one of RFC 3986's unreserved characters, which stand for themselves anywhere in a URI.
HOLDFAST_INTERNAL bool is_unreserved(char c) noexcept;

/// Whether a segment of the path is "." or "..". Proxies between a program and Consul may resolve such segments, even
/// percent-encoded ones. The request would then be for something else.
HOLDFAST_INTERNAL bool has_dot_segment(std::string_view path);

/// Appends the text. All characters are percent-encoded but the unreserved ones and those of `kept`.
HOLDFAST_INTERNAL void append_encoded(std::string& out, std::string_view text, std::string_view kept = {});

/// Decodes a percent-encoded text. Returns nothing if two hexadecimal digits are missing behind a percent sign. All
/// other characters stand for themselves, so a caller that accepts only some of them must check the text first.
HOLDFAST_INTERNAL std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace holdfast::net

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <string_view>

namespace holdfast::consul::detail {

/// Whether the unparsed bytes of a chunked body may be the beginning of its last chunk, "0\r\n\r\n". Beast must not get
/// them before all five are there. Older versions (1.83) parse the first three of these bytes, and then assert that all
/// five are there. Every other chunk that begins with a zero has at least as many bytes. Newer versions (1.88) consume
/// those three alone, so "\r\n" may be left.
inline bool may_be_last_chunk(std::string_view bytes) {
  constexpr std::size_t last_chunk_size_min = 5;
  return bytes.size() < last_chunk_size_min && bytes.starts_with('0');
}

}  // namespace holdfast::consul::detail

#pragma once

#include <string>
#include <string_view>

namespace holdfast::consul::detail {

/// Standard alphabet, padded (RFC 4648 section 4): how Consul writes KV values in JSON.
void append_base64(std::string& out, std::string_view bytes);

/// Strict: no white space, full padding, no stray bits after the last byte. False leaves `out` unspecified.
bool decode_base64(std::string_view text, std::string& out);

}  // namespace holdfast::consul::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/url.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "net/percent_encoding.hpp"

namespace holdfast::consul::detail {
namespace {

error_code parse_path(std::string_view path, agent_address& out) {
  agent_address parsed{net::path_address(path)};
  if (parsed.host.empty()) return error::invalid_address;
  out = std::move(parsed);
  return {};
}

// Removes the slashes at the end. Accepts up to 1024 characters that RFC 3986 allows in a path. They are sent unchanged
// in the request's first line.
bool parse_prefix(std::string_view text, std::string& out) {
  constexpr std::size_t size_max = 1024;
  while (text.ends_with('/')) text.remove_suffix(1);
  const auto may_be_there = [](char c) {
    return net::is_unreserved(c) || std::string_view("/%!$&'()*+,;=:@").find(c) != std::string_view::npos;
  };
  if (text.size() > size_max || !std::all_of(text.begin(), text.end(), may_be_there)) return false;
  out = text;
  return true;
}

}  // namespace

std::string agent_address::to_string() const { return is_path ? "unix://" + host : authority() + path; }

error_code parse_address(std::string_view text, agent_address& out) {
  agent_address parsed;
  parsed.port = 8500;
  if (const auto scheme_end = text.find("://"); scheme_end != std::string_view::npos) {
    const std::string_view name = text.substr(0, scheme_end);
    text.remove_prefix(scheme_end + 3);
    if (net::is_scheme(name, "unix")) return parse_path(text, out);
    if (net::is_scheme(name, "https")) {
      parsed.scheme = scheme::https;
      parsed.port = 8501;
    } else if (!net::is_scheme(name, "http")) {
      return error::unsupported_scheme;
    }
    if (const auto slash = text.find('/'); slash != std::string_view::npos) {
      if (!parse_prefix(text.substr(slash), parsed.path)) return error::invalid_address;
      text.remove_suffix(text.size() - slash);
    }
  }

  if (!net::parse_authority(text, parsed)) return error::invalid_address;
  out = std::move(parsed);
  return {};
}

void append_encoded_key(std::string& out, std::string_view key) { net::append_encoded(out, key, "/"); }

}  // namespace holdfast::consul::detail

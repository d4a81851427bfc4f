// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "url.hpp"

#include <sys/un.h>

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>

namespace holdfast::consul::detail {
namespace {

constexpr std::size_t host_size_max = 253;
constexpr std::size_t path_size_max = sizeof(sockaddr_un::sun_path) - 1;

bool is_alphanumeric(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_unreserved(char c) noexcept { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'; }

bool is_host_character(char c) noexcept { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_'; }

bool is_host_name(std::string_view host) noexcept {
  return !host.empty() && host.size() <= host_size_max && std::all_of(host.begin(), host.end(), is_host_character);
}

// Asio reads a host up to a zero byte, and accepts any text as the zone behind a '%'. The characters are checked first,
// because the host is sent in a header.
bool is_v6_literal(std::string_view host) {
  const auto may_be_there = [](char c) { return is_host_character(c) || c == ':' || c == '%'; };
  if (host.size() > host_size_max || !std::all_of(host.begin(), host.end(), may_be_there)) return false;
  error_code ec;
  boost::asio::ip::make_address_v6(std::string(host), ec);
  return !ec;
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

bool parse_port(std::string_view text, std::uint16_t& out) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  return ec == std::errc() && stop == end && out != 0;
}

// Accepts a path that is not empty, not too long for the system, and without control characters: a zero would end the
// path early, and a line break would split a message.
error_code parse_path(std::string_view path, agent_address& out) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (path.empty() || path.size() > path_size_max) return error::invalid_address;
  if (std::any_of(path.begin(), path.end(), is_control)) return error::invalid_address;
  out = {std::string(path), 0, scheme::unix_socket};
  return {};
}

// Removes the slashes at the end. Accepts up to 1024 characters that RFC 3986 allows in a path. They are sent unchanged
// in the request's first line.
bool parse_prefix(std::string_view text, std::string& out) {
  constexpr std::size_t size_max = 1024;
  while (text.ends_with('/')) text.remove_suffix(1);
  const auto may_be_there = [](char c) {
    return is_unreserved(c) || std::string_view("/%!$&'()*+,;=:@").find(c) != std::string_view::npos;
  };
  if (text.size() > size_max || !std::all_of(text.begin(), text.end(), may_be_there)) return false;
  out = text;
  return true;
}

void append_percent(std::string& out, char c) {
  constexpr char digits[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += {'%', digits[byte >> 4], digits[byte & 15]};
}

}  // namespace

std::string agent_address::authority() const {
  if (scheme == scheme::unix_socket) return "localhost";
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

std::string agent_address::to_string() const {
  return scheme == scheme::unix_socket ? "unix://" + host : authority() + path;
}

error_code parse_address(std::string_view text, agent_address& out) {
  agent_address parsed;
  if (const auto scheme_end = text.find("://"); scheme_end != std::string_view::npos) {
    const std::string_view name = text.substr(0, scheme_end);
    text.remove_prefix(scheme_end + 3);
    if (equals_ignoring_case(name, "unix")) return parse_path(text, out);
    if (equals_ignoring_case(name, "https")) {
      parsed.scheme = scheme::https;
      parsed.port = 8501;
    } else if (!equals_ignoring_case(name, "http")) {
      return error::unsupported_scheme;
    }
    if (const auto slash = text.find('/'); slash != std::string_view::npos) {
      if (!parse_prefix(text.substr(slash), parsed.path)) return error::invalid_address;
      text.remove_suffix(text.size() - slash);
    }
  }

  std::string_view host = text;
  std::string_view after_host;
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) return error::invalid_address;
    host = text.substr(1, bracket - 1);
    after_host = text.substr(bracket + 1);
    if (!is_v6_literal(host)) return error::invalid_address;
  } else {
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
      host = text.substr(0, colon);
      after_host = text.substr(colon);
    }
    if (!is_host_name(host)) return error::invalid_address;
  }

  parsed.host = host;
  if (!after_host.empty()) {
    if (!after_host.starts_with(':') || !parse_port(after_host.substr(1), parsed.port)) return error::invalid_address;
  }
  out = std::move(parsed);
  return {};
}

std::string certificate_name(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    if (!is_v6_literal(host)) return {};
  }
  if (is_v6_literal(host)) return std::string(host.substr(0, host.find('%')));
  if (host.ends_with('.')) host.remove_suffix(1);
  const bool is_name =
      is_host_name(host) && !host.starts_with('.') && !host.ends_with('.') && host.find("..") == std::string_view::npos;
  return is_name ? std::string(host) : std::string();
}

void append_encoded(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      append_percent(out, c);
    }
  }
}

void append_encoded_key(std::string& out, std::string_view key) {
  for (const char c : key) {
    if (is_unreserved(c) || c == '/') {
      out += c;
    } else {
      append_percent(out, c);
    }
  }
}

}  // namespace holdfast::consul::detail

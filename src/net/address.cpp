// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/address.hpp"

#include <algorithm>
#include <boost/asio/ip/address_v6.hpp>
#include <charconv>
#include <cstddef>
#include <holdfast/error.hpp>
#include <utility>

#include "platform/socket_path.hpp"

namespace holdfast::net {
namespace {

constexpr std::size_t host_size_max = 253;

bool is_alphanumeric(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_host_character(char c) noexcept { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_'; }

bool is_host_name(std::string_view host) noexcept {
  return !host.empty() && host.size() <= host_size_max && std::all_of(host.begin(), host.end(), is_host_character);
}

// Asio reads a host up to a zero byte, and accepts any text as the zone behind a '%'. The characters are checked first,
// because the host is sent in a header.
bool is_v6_literal(std::string_view host) {
  const auto may_be_there = [](char c) { return is_host_character(c) || c == ':' || c == '%'; };
  if (host.size() > host_size_max || !std::all_of(host.begin(), host.end(), may_be_there)) return false;
  if (host.ends_with('%')) return false;  // an empty zone
  error_code ec;
  boost::asio::ip::make_address_v6(std::string(host), ec);
  return !ec;
}

bool parse_port(std::string_view text, std::uint16_t& out) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  return ec == std::errc() && stop == end && out != 0;
}

}  // namespace

std::string address::authority() const {
  if (is_path) return "localhost";
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

std::string address::authority_without_zone() const {
  address its = *this;
  if (!is_path) its.host.erase(std::min(its.host.find('%'), its.host.size()));
  return its.authority();
}

bool parse_authority(std::string_view text, address& out) {
  std::string host(text);
  std::string_view after_host;
  if (text.starts_with('[')) {
    const auto bracket = text.find(']');
    if (bracket == std::string_view::npos) return false;
    host = text.substr(1, bracket - 1);
    after_host = text.substr(bracket + 1);
    constexpr std::string_view encoded_percent = "%25";
    const auto zone = host.find('%');
    const bool is_encoded =
        zone != std::string::npos && std::string_view(host).substr(zone).starts_with(encoded_percent);
    // Interface 25 may be written without encoding.
    if (is_encoded && zone + encoded_percent.size() != host.size()) host.erase(zone + 1, encoded_percent.size() - 1);
    if (!is_v6_literal(host)) return false;
  } else {
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
      host = text.substr(0, colon);
      after_host = text.substr(colon);
    }
    if (!is_host_name(host)) return false;
  }
  std::uint16_t port = out.port;
  if (!after_host.empty() && (!after_host.starts_with(':') || !parse_port(after_host.substr(1), port))) return false;
  out = {std::move(host), port};
  return true;
}

bool is_scheme(std::string_view text, std::string_view lower) noexcept {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

// Refuses a path that is too long for the system, or has control characters: a zero would end the
// path early, and a line break would split a message.
address path_address(std::string_view path) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (path.size() > platform::socket_path_size_max() || std::any_of(path.begin(), path.end(), is_control)) return {};
  return {std::string(path), 0, true};
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

}  // namespace holdfast::net

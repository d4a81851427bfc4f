// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/proxy.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <cstdlib>
#include <utility>

#include "consul/encoding/base64.hpp"
#include "net/percent_encoding.hpp"

namespace holdfast::consul::detail {
namespace {

namespace ip = boost::asio::ip;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool is_in_network(const ip::address& host, const std::string& network) {
  error_code ec;
  if (host.is_v4()) {
    const ip::network_v4 all = ip::make_network_v4(network, ec);
    return !ec && all.canonical() == ip::network_v4(host.to_v4(), all.prefix_length()).canonical();
  }
  const ip::network_v6 all = ip::make_network_v6(network, ec);
  return !ec && all.canonical() == ip::network_v6(host.to_v6(), all.prefix_length()).canonical();
}

// Splits `host`, `host:port`, `[v6]`, `[v6]:port`, or a bare IPv6 address.
std::pair<std::string_view, std::string_view> split_port(std::string_view text) {
  const auto bracket = text.rfind(']');
  const auto colon = text.rfind(':');
  if (text.starts_with('[') && bracket != std::string_view::npos) {
    const bool has_port = text.substr(bracket + 1).starts_with(':');
    return {text.substr(1, bracket - 1), has_port ? text.substr(bracket + 2) : std::string_view()};
  }
  if (colon == std::string_view::npos || text.find(':') != colon) return {text, {}};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// A name may end with a dot, which says that it is complete.
std::string_view without_final_dot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

// A zone is not part of the address.
ip::address address_in(std::string_view text, error_code& ec) {
  return ip::make_address(std::string(text.substr(0, text.find('%'))), ec);
}

bool names(std::string_view entry, const agent_address& to) {
  error_code ec;
  const ip::address host = address_in(to.host, ec);
  const bool is_ip = !ec;
  if (entry.find('/') != std::string_view::npos) return is_ip && is_in_network(host, std::string(entry));
  auto [name, port] = split_port(entry);
  if (!port.empty() && port != std::to_string(to.port)) return false;
  const ip::address listed = address_in(name, ec);
  if (!ec) return is_ip && listed == host;
  if (is_ip) return false;
  name = without_final_dot(name);
  if (name.empty()) return false;
  if (name.starts_with("*.")) name.remove_prefix(1);
  const std::string wanted = lower(without_final_dot(to.host));
  if (name.starts_with('.')) return wanted.ends_with(name);
  return wanted == name ||
         (wanted.size() > name.size() && wanted.ends_with(name) && wanted[wanted.size() - name.size() - 1] == '.');
}

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') value = std::getenv(otherwise);
  return value == nullptr ? std::string() : value;
}

bool is_loopback(const agent_address& to) {
  error_code ec;
  const ip::address host = address_in(to.host, ec);
  return ec ? lower(without_final_dot(to.host)) == "localhost" : host.is_loopback();
}

}  // namespace

std::string basic_credentials(std::string_view user_and_password) {
  std::string who(user_and_password);
  if (who.find(':') == std::string::npos) who += ':';
  std::string result = "Basic ";
  append_base64(result, who);
  return result;
}

error_code parse_proxy(std::string_view text, proxy_address& out) {
  if (const auto scheme_end = text.find("://"); scheme_end != std::string_view::npos) {
    if (lower(text.substr(0, scheme_end)) != "http") return error::unsupported_scheme;
    text.remove_prefix(scheme_end + 3);
  }
  proxy_address parsed;
  if (const auto at = text.rfind('@'); at != std::string_view::npos) {
    auto login = net::percent_decoded(text.substr(0, at));
    if (!login) return error::invalid_address;
    parsed.login = std::move(*login);
    parsed.credentials = basic_credentials(parsed.login);
    text.remove_prefix(at + 1);
  }
  if (const error_code ec = parse_address("http://" + std::string(text), parsed.at)) return ec;
  if (!parsed.at.path.empty()) return error::invalid_address;
  if (text.ends_with('/')) text.remove_suffix(1);
  constexpr std::uint16_t http_port = 80;
  if (split_port(text).second.empty()) parsed.at.port = http_port;
  out = std::move(parsed);
  return {};
}

bool is_excepted(const agent_address& to, std::string_view list) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const std::string entry = lower(without_spaces(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (entry == "*" || (!entry.empty() && names(entry, to))) return true;
  }
  return false;
}

std::string proxy_from_environment(const agent_address& to) {
  if (to.is_path || is_loopback(to)) return {};
  std::string proxy;
  if (to.scheme == scheme::https) {
    proxy = variable("HTTPS_PROXY", "https_proxy");
  } else {
    proxy = variable("HTTP_PROXY", "http_proxy");
    if (!proxy.empty() && std::getenv("REQUEST_METHOD") != nullptr) {
      throw system_error(error::invalid_option, "HTTP_PROXY in a CGI program may be its client's");
    }
  }
  return proxy.empty() || is_excepted(to, variable("NO_PROXY", "no_proxy")) ? std::string() : proxy;
}

}  // namespace holdfast::consul::detail

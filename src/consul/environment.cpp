// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <cstdlib>
#include <holdfast/consul/config.hpp>

#include "consul/connections/proxy.hpp"

namespace holdfast::consul {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void override_from(const char* name, std::string& field) {
  if (std::string value = variable(name); !value.empty()) field = std::move(value);
}

// Accepts what Go's strconv.ParseBool accepts. For any other value, `consul` warns and goes on, but this throws: a
// typing error must turn off neither verification nor TLS.
bool flag(const char* name, bool otherwise) {
  constexpr std::string_view yes[] = {"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::string_view no[] = {"0", "f", "F", "false", "FALSE", "False"};
  const std::string value = variable(name);
  if (value.empty()) return otherwise;
  if (std::find(std::begin(yes), std::end(yes), value) != std::end(yes)) return true;
  if (std::find(std::begin(no), std::end(no), value) != std::end(no)) return false;
  throw system_error(error::invalid_option, std::string(name) + " is neither true nor false: \"" + value + '"');
}

// Completes CONSUL_HTTP_ADDR as `consul` does. The scheme is https if the address or CONSUL_HTTP_SSL says so. An
// address without a port gets HTTP's or HTTPS's own. An address with another scheme is returned unchanged.
std::string with_scheme_and_port(std::string address, bool is_secure) {
  const auto scheme_end = address.find("://");
  std::string scheme = scheme_end == std::string::npos ? "" : address.substr(0, scheme_end + 3);
  if (!scheme.empty() && scheme != "http://" && scheme != "https://") return address;
  address.erase(0, scheme.size());
  if (is_secure) scheme = "https://";
  const std::string path =
      scheme_end == std::string::npos ? "" : address.substr(std::min(address.find('/'), address.size()));
  address.erase(address.size() - path.size());
  const auto bracket = address.rfind(']');
  const bool has_port = address.find(':', bracket == std::string::npos ? 0 : bracket) != std::string::npos;
  if (!has_port) address += scheme == "https://" ? ":443" : ":80";
  return scheme + address + path;
}

// `consul` accepts a server name with a port, and ignores the port.
std::string without_port(std::string name) {
  const auto colon = name.rfind(':');
  const auto bracket = name.rfind(']');
  if (colon != std::string::npos && (bracket == std::string::npos || colon > bracket)) name.erase(colon);
  return name;
}

}  // namespace

config config::from_environment() {
  config c;
  const bool is_secure = flag("CONSUL_HTTP_SSL", false);
  const std::string address = variable("CONSUL_HTTP_ADDR");
  c.address = with_scheme_and_port(address.empty() ? c.address : address, is_secure);
  override_from("CONSUL_HTTP_TOKEN", c.token);
  override_from("CONSUL_HTTP_TOKEN_FILE", c.token_file);
  override_from("CONSUL_HTTP_AUTH", c.http_auth);
  override_from("CONSUL_NAMESPACE", c.consul_namespace);
  override_from("CONSUL_PARTITION", c.partition);
  override_from("CONSUL_DATACENTER", c.datacenter);
  override_from("CONSUL_CACERT", c.tls.ca_file);
  override_from("CONSUL_CAPATH", c.tls.ca_path);
  override_from("CONSUL_CLIENT_CERT", c.tls.certificate_file);
  override_from("CONSUL_CLIENT_KEY", c.tls.key_file);
  override_from("CONSUL_TLS_SERVER_NAME", c.tls.server_name);
  c.tls.server_name = without_port(std::move(c.tls.server_name));
  c.tls.insecure_skip_verify = !flag("CONSUL_HTTP_SSL_VERIFY", true);
  detail::agent_address parsed;
  if (const error_code ec = detail::parse_address(c.address, parsed)) {
    throw system_error(ec, "CONSUL_HTTP_ADDR \"" + address + '"');
  }
  c.proxy = detail::proxy_from_environment(parsed);
  return c;
}

}  // namespace holdfast::consul

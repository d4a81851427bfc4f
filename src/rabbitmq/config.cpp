// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <cstdlib>
#include <holdfast/rabbitmq/config.hpp>
#include <string>

#include "net/address.hpp"
#include "rabbitmq/config_check.hpp"

namespace holdfast::rabbitmq {
namespace detail {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t addresses_max = 16;

void require(bool ok, const char* rule) {
  if (!ok) throw system_error(error::invalid_option, rule);
}

bool is_time(milliseconds t) noexcept { return t >= milliseconds(1) && t <= time_max; }

bool is_login_text(std::string_view text, std::size_t most) noexcept {
  return text.size() <= most && text.find('\0') == std::string_view::npos;
}

// The text of an address is not quoted, because it may contain a password.
broker_address parsed(const std::string& text, const std::string& name) {
  broker_address address;
  std::string_view cause;
  if (const error_code ec = parse_address(text, address, cause))
    throw system_error(ec, name + ": " + std::string(cause));
  return address;
}

// These do not compile if their structure gets another member. Then check the range of the new member in `check`.
void know_all_of(const config& c) {
  [[maybe_unused]] const auto& [address, addresses, user, password, password_file, tls, request_timeout,
                                connect_timeout, backoff_min, backoff_max, log, its_tracer] = c;
}
void know_all_of(const tls_options& tls) {
  [[maybe_unused]] const auto& [ca_file, ca_path, certificate_file, key_file, server_name, insecure_skip_verify,
                                context] = tls;
}

void check_tls(const tls_options& tls) {
  require(tls.certificate_file.empty() == tls.key_file.empty(), "tls.certificate_file and tls.key_file go together");
  require(!tls.context || (tls.ca_file.empty() && tls.ca_path.empty() && tls.certificate_file.empty()),
          "tls.context excludes the options that name files");
  require(tls.server_name.empty() || !net::certificate_name(tls.server_name).empty(),
          "tls.server_name must be a host's name or an IP address");
}

}  // namespace

std::vector<broker_address> check(const config& c) {
  know_all_of(c);
  know_all_of(c.tls);
  require(c.addresses.size() <= addresses_max, "addresses must be 16 at most");
  std::vector<broker_address> all;
  if (c.addresses.empty()) all.push_back(parsed(c.address, "address"));
  for (const std::string& each : c.addresses)
    all.push_back(parsed(each, "addresses[" + std::to_string(all.size()) + ']'));
  require(is_login_text(c.user, user_bytes_max), "user must have at most 255 bytes, and no zero byte");
  require(is_login_text(c.password, password_bytes_max), "password must have at most 1,024 bytes, and no zero byte");
  require(c.password.empty() || c.password_file.empty(), "password and password_file exclude each other");
  check_tls(c.tls);
  require(is_time(c.request_timeout), "request_timeout must be 1 ms to 10 min");
  require(is_time(c.connect_timeout), "connect_timeout must be 1 ms to 10 min");
  require(is_time(c.backoff_min), "backoff_min must be 1 ms to 10 min");
  require(is_time(c.backoff_max), "backoff_max must be 1 ms to 10 min");
  require(c.backoff_min <= c.backoff_max, "backoff_min must not be over backoff_max");
  return all;
}

}  // namespace detail

config config::from_environment() {
  config c;
  const char* const url = std::getenv("AMQP_URL");
  if (url == nullptr || *url == '\0') return c;
  detail::parsed(url, "AMQP_URL");  // throws if it is not an address
  c.address = url;
  return c;
}

}  // namespace holdfast::rabbitmq

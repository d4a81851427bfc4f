// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <holdfast/consul/config.hpp>

#include "consul/config_check.hpp"
#include "consul/connections/proxy.hpp"
#include "consul/encoding/url.hpp"
#include "net/address.hpp"

namespace holdfast::consul {
namespace detail {
namespace {

using std::chrono::milliseconds;

void require(bool ok, error e, const char* rule) {
  if (!ok) throw system_error(e, rule);
}

bool is_time(milliseconds t) noexcept { return t >= milliseconds(1) && t <= time_max; }

bool is_within(std::size_t value, std::size_t least, std::size_t most) noexcept {
  return value >= least && value <= most;
}

// Hides the login in an address that is refused, because the text may be logged.
std::string without_login(const std::string& address) {
  const auto scheme_end = address.find("://");
  const std::size_t begin = scheme_end == std::string::npos ? 0 : scheme_end + 3;
  const auto end = address.rfind('@');
  if (end == std::string::npos || end < begin) return address;
  return address.substr(0, begin) + "(hidden)" + address.substr(end);
}

// These do not compile if their structure gets another member. Then check the range of the new member in `check`.
void know_all_of(const config& c) {
  [[maybe_unused]] const auto& [address, addresses, proxy, token, token_file, token_function, new_token_grace,
                                http_auth, datacenter, consul_namespace, partition, tls, request_timeout,
                                connect_timeout, backoff_min, backoff_max, connections_max, renewals_max, blocking_max,
                                queue_max, reply_bytes_max, log, its_tracer] = c;
}
void know_all_of(const tls_options& tls) {
  [[maybe_unused]] const auto& [ca_file, ca_path, certificate_file, key_file, server_name, insecure_skip_verify,
                                context] = tls;
}

}  // namespace

bool is_header_text(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

std::vector<agent_address> check(const config& c) {
  know_all_of(c);
  know_all_of(c.tls);
  std::vector<agent_address> addresses;
  for (const std::string& each : c.addresses.empty() ? std::vector{c.address} : c.addresses) {
    if (const error_code ec = parse_address(each, addresses.emplace_back())) {
      throw system_error(ec, "address \"" + without_login(each) + '"');
    }
  }
  require(addresses.size() <= 16, error::invalid_option, "addresses must be 16 at most");
  // The message does not quote the proxy, because it may contain a password.
  proxy_address ignored;
  if (!c.proxy.empty()) {
    const error_code ec = parse_proxy(c.proxy, ignored);
    if (ec) throw system_error(ec, "proxy must be http://host:port");
  }

  require(c.token_file.empty() || !c.token_function, error::invalid_option,
          "token_file and token_function exclude each other");
  require(is_header_text(c.token), error::invalid_option, "token must be printable ASCII without spaces");
  require(c.new_token_grace.count() == 0 || is_time(c.new_token_grace), error::invalid_option,
          "new_token_grace must be 0 to 10 min");
  const tls_options& tls = c.tls;
  require(tls.certificate_file.empty() == tls.key_file.empty(), error::invalid_option,
          "tls.certificate_file and tls.key_file go together");
  require(!tls.context || (tls.ca_file.empty() && tls.ca_path.empty() && tls.certificate_file.empty()),
          error::invalid_option, "tls.context excludes the options that name files");
  require(tls.server_name.empty() || !net::certificate_name(tls.server_name).empty(), error::invalid_option,
          "tls.server_name must be a host's name or an IP address");
  require(is_time(c.request_timeout), error::invalid_option, "request_timeout must be 1 ms to 10 min");
  require(is_time(c.connect_timeout), error::invalid_option, "connect_timeout must be 1 ms to 10 min");
  require(is_time(c.backoff_min), error::invalid_option, "backoff_min must be 1 ms to 10 min");
  require(is_time(c.backoff_max), error::invalid_option, "backoff_max must be 1 ms to 10 min");
  require(c.backoff_min <= c.backoff_max, error::invalid_option, "backoff_min must not be over backoff_max");
  require(is_within(c.connections_max, 1, 1000), error::invalid_option, "connections_max must be 1 to 1000");
  require(is_within(c.renewals_max, 1, 1000), error::invalid_option, "renewals_max must be 1 to 1000");
  require(is_within(c.blocking_max, 1, 1000), error::invalid_option, "blocking_max must be 1 to 1000");
  require(is_within(c.queue_max, 1, 1'000'000), error::invalid_option, "queue_max must be 1 to 1000000");
  require(is_within(c.reply_bytes_max, 1024, std::size_t{1} << 30), error::invalid_option,
          "reply_bytes_max must be 1 KiB to 1 GiB");
  return addresses;
}

}  // namespace detail

}  // namespace holdfast::consul

#include <algorithm>
#include <cstdlib>
#include <holdfast/consul/config.hpp>

#include "config_check.hpp"

namespace holdfast::consul {
namespace detail {
namespace {

using std::chrono::milliseconds;

void require(bool ok, error e, const char* rule) {
  if (!ok) throw system_error(e, rule);
}

bool is_header_text(const std::string& text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

bool is_time(milliseconds t) noexcept { return t >= milliseconds(1) && t <= time_max; }

bool is_within(std::size_t value, std::size_t least, std::size_t most) noexcept {
  return value >= least && value <= most;
}

}  // namespace

agent_address check(const config& c) {
  agent_address address;
  if (const error_code ec = parse_address(c.address, address)) throw system_error(ec, "address \"" + c.address + '"');
  if (address.scheme == scheme::https) throw system_error(error::unsupported_scheme, "address \"" + c.address + '"');

  require(is_header_text(c.token), error::invalid_option, "token must be printable ASCII without spaces");
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
  return address;
}

}  // namespace detail

namespace {

void override_from(const char* variable, std::string& field) {
  if (const char* const value = std::getenv(variable); value != nullptr && *value != '\0') field = value;
}

}  // namespace

config config::from_environment() {
  config c;
  override_from("CONSUL_HTTP_ADDR", c.address);
  override_from("CONSUL_HTTP_TOKEN", c.token);
  override_from("CONSUL_DATACENTER", c.datacenter);

  // Who asks for TLS must not get plain text: as an https address it is refused by the client's constructor.
  std::string ssl;
  override_from("CONSUL_HTTP_SSL", ssl);
  const bool wants_tls = ssl == "1" || ssl == "t" || ssl == "T" || ssl == "true" || ssl == "TRUE" || ssl == "True";
  if (wants_tls) {
    const auto scheme_end = c.address.find("://");
    c.address = "https://" + (scheme_end == std::string::npos ? c.address : c.address.substr(scheme_end + 3));
  }
  return c;
}

}  // namespace holdfast::consul

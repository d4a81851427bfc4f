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

std::vector<agent_address> check(const config& c) {
  std::vector<agent_address> addresses;
  for (const std::string& each : c.addresses.empty() ? std::vector{c.address} : c.addresses) {
    if (const error_code ec = parse_address(each, addresses.emplace_back())) {
      throw system_error(ec, "address \"" + each + '"');
    }
  }
  require(addresses.size() <= 16, error::invalid_option, "addresses must be 16 at most");

  require(is_header_text(c.token), error::invalid_option, "token must be printable ASCII without spaces");
  const tls_options& tls = c.tls;
  require(tls.certificate_file.empty() == tls.key_file.empty(), error::invalid_option,
          "tls.certificate_file and tls.key_file go together");
  require(!tls.context || (tls.ca_file.empty() && tls.ca_path.empty() && tls.certificate_file.empty()),
          error::invalid_option, "tls.context has what the files would say");
  require(tls.server_name.size() <= 253 && is_header_text(tls.server_name), error::invalid_option,
          "tls.server_name must be a host's name");
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

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void override_from(const char* name, std::string& field) {
  if (std::string value = variable(name); !value.empty()) field = std::move(value);
}

// The words that Go's strconv.ParseBool takes. Where `consul` warns of any other and goes on, here it is refused: a
// typing error must not turn verification off, nor TLS.
bool flag(const char* name, bool otherwise) {
  constexpr std::string_view yes[] = {"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::string_view no[] = {"0", "f", "F", "false", "FALSE", "False"};
  const std::string value = variable(name);
  if (value.empty()) return otherwise;
  if (std::find(std::begin(yes), std::end(yes), value) != std::end(yes)) return true;
  if (std::find(std::begin(no), std::end(no), value) != std::end(no)) return false;
  throw system_error(error::invalid_option, std::string(name) + " is neither true nor false: \"" + value + '"');
}

// What `consul` makes of CONSUL_HTTP_ADDR: https if that is said anywhere, and without a port HTTP's own.
std::string with_scheme_and_port(std::string address, bool is_secure) {
  const auto scheme_end = address.find("://");
  std::string scheme = scheme_end == std::string::npos ? "" : address.substr(0, scheme_end + 3);
  if (!scheme.empty() && scheme != "http://" && scheme != "https://") return address;
  address.erase(0, scheme.size());
  if (address.ends_with('/')) address.pop_back();
  if (is_secure) scheme = "https://";
  const auto bracket = address.rfind(']');
  const bool has_port = address.find(':', bracket == std::string::npos ? 0 : bracket) != std::string::npos;
  if (!has_port) address += scheme == "https://" ? ":443" : ":80";
  return scheme + address;
}

}  // namespace

config config::from_environment() {
  config c;
  const bool is_secure = flag("CONSUL_HTTP_SSL", false);
  const std::string address = variable("CONSUL_HTTP_ADDR");
  c.address = with_scheme_and_port(address.empty() ? c.address : address, is_secure);
  override_from("CONSUL_HTTP_TOKEN", c.token);
  override_from("CONSUL_DATACENTER", c.datacenter);
  override_from("CONSUL_CACERT", c.tls.ca_file);
  override_from("CONSUL_CAPATH", c.tls.ca_path);
  override_from("CONSUL_CLIENT_CERT", c.tls.certificate_file);
  override_from("CONSUL_CLIENT_KEY", c.tls.key_file);
  override_from("CONSUL_TLS_SERVER_NAME", c.tls.server_name);
  c.tls.insecure_skip_verify = !flag("CONSUL_HTTP_SSL_VERIFY", true);
  return c;
}

}  // namespace holdfast::consul

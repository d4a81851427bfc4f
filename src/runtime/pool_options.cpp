#include "runtime/pool_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <holdfast/error.hpp>

namespace holdfast::runtime {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void require(bool holds, error broken, const char* rule) {
  if (!holds) throw system_error(make_error_code(broken), rule);
}

bool between(milliseconds value, milliseconds low, milliseconds high) { return low <= value && value <= high; }

std::string host_and_pid() {
  error_code ec;
  const std::string host = boost::asio::ip::host_name(ec);
  return (ec ? "unknown" : host) + ":" + std::to_string(::getpid());
}

}  // namespace

semaphore_options checked(semaphore_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  require(!options.prefix.empty(), error::invalid_prefix, "prefix: empty");
  require(!options.prefix.starts_with('/'), error::invalid_prefix, "prefix: starts with a slash");
  require(!options.prefix.ends_with('/') && options.prefix.find("//") == std::string::npos, error::invalid_prefix,
          "prefix: has an empty segment (two slashes)");
  require(options.prefix.size() <= 400, error::invalid_prefix, "prefix: over 400 bytes");
  require(options.limit >= 1, error::invalid_limit, "limit: 0");
  require(options.limit <= protocol::limit_max, error::invalid_limit, "limit: over 10000");
  require(!options.lock_key.empty() && options.lock_key.find('/') == std::string::npos, error::invalid_option,
          "lock_key: empty or with a slash");
  require(options.description.size() <= 1024, error::invalid_option, "description: over 1 KiB");
  require(between(options.session_ttl, 1ms, 24h), error::invalid_ttl, "session_ttl: not between 1 ms and 24 h");
  if (options.lease_margin == 0ms) options.lease_margin = options.session_ttl / 10;
  require(between(options.lease_margin, 0ms, options.session_ttl / 2), error::invalid_option,
          "lease_margin: over half the TTL");
  require(between(options.lock_delay, 0ms, 60s), error::invalid_option, "lock_delay: not between 0 and 60 s");
  for (const milliseconds each : {options.tenure, options.idle, options.outage_grace, options.give_up_after,
                                  options.patience, options.session_idle, options.request_timeout})
    require(between(each, 0ms, 24h), error::invalid_option, "a duration is negative or over 24 h");
  require(options.waiters_max >= 1, error::invalid_option, "waiters_max: 0");
  if (options.description.empty()) options.description = host_and_pid();
  return options;
}

milliseconds request_timeout(const semaphore_options& checked) {
  if (checked.request_timeout != 0ms) return checked.request_timeout;
  return std::clamp<milliseconds>(checked.session_ttl / 3, 1ms, 5s);
}

protocol::pool_options to_pool_options(const semaphore_options& checked) {
  protocol::pool_options result;
  result.prefix = checked.prefix + "/";
  result.lock_key = result.prefix + checked.lock_key;
  result.description = checked.description;
  result.limit = checked.limit;
  result.waiters_max = checked.waiters_max;
  result.ttl = checked.session_ttl;
  result.lease_margin = checked.lease_margin;
  result.tenure = checked.tenure;
  result.idle = checked.idle;
  result.outage_grace = checked.outage_grace;
  result.give_up_after = checked.give_up_after;
  result.patience = checked.patience;
  result.session_idle = checked.session_idle;
  result.lock_delay = checked.node_health_checks ? checked.lock_delay : 0ms;
  result.watch_wait = std::clamp<milliseconds>(checked.session_ttl, 100ms, 10s);
  return result;
}

}  // namespace holdfast::runtime

#include "runtime/pool_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <holdfast/error.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "consul/utf8.hpp"
#include "runtime/boot_clock.hpp"

namespace holdfast::runtime {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void require(bool holds, error broken, const std::string& rule) {
  if (!holds) throw system_error(make_error_code(broken), rule);
}

bool between(milliseconds value, milliseconds low, milliseconds high) { return low <= value && value <= high; }

/// Valid UTF-8, as JSON needs it, and nothing that a log or a terminal would take for a command.
bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto [c, size] = consul::detail::front_character(text);
    if (size == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;
    text.remove_prefix(size);
  }
  return true;
}

/// What stands between programs and Consul likes to resolve such segments: the request would be for another key.
bool has_dot_segment(const std::string& path) {
  const std::string framed = '/' + path + '/';
  return framed.find("/./") != std::string::npos || framed.find("/../") != std::string::npos;
}

std::string host_and_pid() {
  error_code ec;
  const std::string host = boost::asio::ip::host_name(ec);
  return (ec ? "unknown" : host) + ":" + std::to_string(::getpid());
}

void check_path(const std::string& path, const std::string& name) {
  require(!path.empty(), error::invalid_prefix, name + ": empty");
  require(!path.starts_with('/'), error::invalid_prefix, name + ": starts with a slash");
  require(!path.ends_with('/') && path.find("//") == std::string::npos, error::invalid_prefix,
          name + ": has an empty segment (two slashes)");
  require(path.size() <= 400, error::invalid_prefix, name + ": over 400 bytes");
  require(is_plain_text(path), error::invalid_prefix, name + ": not UTF-8, or with a control character");
  require(!has_dot_segment(path), error::invalid_prefix, name + ": has a segment \".\" or \"..\"");
}

/// What we put into an entry, where more of ours may follow it.
void check_words(const std::string& words, const std::string& name) {
  require(words.size() <= 1024, error::invalid_option, name + ": over 1 KiB");
  require(protocol::words_in(words).description == words, error::invalid_option,
          name + ": looks like what holdfast itself adds to it");
}

/// What the other kinds' options have in common with a semaphore's, by the same names.
template <class Options>
semaphore_options common_to(Options& options) {
  semaphore_options result;
  result.session_ttl = options.session_ttl;
  result.lease_margin = options.lease_margin;
  result.session_node = std::move(options.session_node);
  result.node_health_checks = options.node_health_checks;
  result.lock_delay = options.lock_delay;
  result.outage_grace = options.outage_grace;
  result.give_up_after = options.give_up_after;
  result.request_timeout = options.request_timeout;
  result.log = std::move(options.log);
  if constexpr (!std::is_same_v<Options, election_options>) {
    result.description = std::move(options.description);
    result.session_idle = options.session_idle;
    result.waiters_max = options.waiters_max;
  }
  if constexpr (std::is_same_v<Options, mutex_options>) {
    result.tenure = options.tenure;
    result.idle = options.idle;
  }
  return result;
}

/// What does not concern the keys.
pool_setup checked_rest(semaphore_options&& options) {
  check_words(options.description, "description");
  require(between(options.session_ttl, 1ms, 24h), error::invalid_ttl, "session_ttl: not between 1 ms and 24 h");
  if (options.lease_margin == 0ms) options.lease_margin = options.session_ttl / 10;
  require(between(options.lease_margin, 0ms, options.session_ttl / 2), error::invalid_option,
          "lease_margin: over half the TTL");
  require(!options.lock_delay || between(*options.lock_delay, 0ms, 60s), error::invalid_option,
          "lock_delay: not between 0 and 60 s");
  require(options.session_node.size() <= 128 && is_plain_text(options.session_node), error::invalid_option,
          "session_node: over 128 bytes, not UTF-8, or with a control character");
  require(!options.node_health_checks || options.session_node.empty(), error::invalid_option,
          "node_health_checks: only the agent's own node has one (session_node)");
  const milliseconds least = std::min<milliseconds>(options.session_ttl, 60s);
  require(
      !options.node_health_checks || options.lock_delay.value_or(least) >= least, error::invalid_option,
      "lock_delay: under the TTL, for which a holder with a slow clock may believe after a health check has failed");
  for (const milliseconds each : {options.tenure, options.idle, options.outage_grace, options.give_up_after,
                                  options.patience, options.session_idle})
    require(between(each, 0ms, 24h), error::invalid_option, "a duration is negative or over 24 h");
  require(between(options.request_timeout, 0ms, 10min), error::invalid_option,
          "request_timeout: negative or over 10 min");
  require(options.waiters_max >= 1, error::invalid_option, "waiters_max: 0");

  pool_setup result;
  consul::session_options& session = result.driver.session;
  session.name = "holdfast " + options.prefix;
  session.ttl = options.session_ttl;
  session.lock_delay = 0ms;
  session.behavior = consul::session_behavior::remove;
  session.node_checks = options.node_health_checks;
  session.node = options.session_node;
  result.driver.request_timeout = options.request_timeout != 0ms
                                      ? options.request_timeout
                                      : std::clamp<milliseconds>(options.session_ttl / 3, 1ms, 5s);
  protocol::pool_options& pool = result.core;
  pool.description = options.description.empty() ? host_and_pid() : std::move(options.description);
  pool.limit = options.limit;
  pool.adopt = options.adopt;
  pool.wall_offset = std::chrono::system_clock::now().time_since_epoch() - now().time_since_epoch();
  pool.waiters_max = options.waiters_max;
  pool.ttl = options.session_ttl;
  pool.lease_margin = options.lease_margin;
  pool.node = std::move(options.session_node);
  pool.tenure = options.tenure;
  pool.idle = options.idle;
  pool.outage_grace = options.outage_grace;
  pool.give_up_after = options.give_up_after;
  pool.patience = options.patience;
  pool.session_idle = options.session_idle;
  pool.watch_wait = std::clamp<milliseconds>(options.session_ttl, 100ms, 10s);
  result.driver.name = std::move(options.prefix);
  result.driver.log = std::move(options.log);
  return result;
}

/// Consul itself minds it. Where sessions may end before their time, it covers what a holder may believe then: TTL
/// minus margin by its own clock, so the whole TTL if Consul takes that, as its clock may be slow.
milliseconds lock_delay_of_a_mutex(const std::optional<milliseconds>& given, const protocol::pool_options& checked) {
  if (given) return *given;
  if (!checked.node.empty()) return 0ms;
  const auto lease = std::chrono::ceil<milliseconds>(checked.ttl - checked.lease_margin);
  require(
      lease <= 60s, error::invalid_option,
      "session_ttl: on the agent's own node (session_node) Consul's lock delay has to cover TTL minus margin, and it "
      "is 60 s at most");
  return std::min<milliseconds>(std::chrono::ceil<milliseconds>(checked.ttl), 60s);
}

pool_setup checked_mutex(std::string key, semaphore_options rest, milliseconds courtesy) {
  require(between(courtesy, 0ms, 24h), error::invalid_option, "a duration is negative or over 24 h");
  rest.prefix = checked_key(std::move(key));
  rest.limit = 1;
  const std::optional<milliseconds> lock_delay = rest.lock_delay;
  pool_setup result = checked_rest(std::move(rest));
  result.core.courtesy = courtesy;
  result.core.prefix = result.core.lock_key = result.driver.name;
  result.core.form = protocol::record_form::session;
  result.driver.session.lock_delay = lock_delay_of_a_mutex(lock_delay, result.core);
  return result;
}

}  // namespace

pool_setup checked(semaphore_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  check_path(options.prefix, "prefix");
  require(options.limit >= 1, error::invalid_limit, "limit: 0");
  require(options.limit <= protocol::limit_max, error::invalid_limit,
          "limit: over " + std::to_string(protocol::limit_max));
  require(!options.lock_key.empty() && options.lock_key.find('/') == std::string::npos, error::invalid_option,
          "lock_key: empty or with a slash");
  require(is_plain_text(options.lock_key), error::invalid_option, "lock_key: not UTF-8, or with a control character");
  require(!has_dot_segment(options.lock_key), error::invalid_option, "lock_key: \".\" or \"..\"");
  const std::string prefix = options.prefix + "/", lock_key = prefix + options.lock_key;
  const std::optional<milliseconds> given = options.lock_delay;
  const bool numbered = options.numbered;
  pool_setup result = checked_rest(std::move(options));
  result.core.prefix = prefix;
  result.core.lock_key = lock_key;
  result.core.numbered = numbered;
  consul::session_options& session = result.driver.session;
  const auto ttl = std::chrono::ceil<milliseconds>(result.core.ttl);
  const milliseconds lock_delay = given.value_or(session.node_checks ? ttl : std::max<milliseconds>(ttl, 15s));
  if (session.node_checks) result.core.lock_delay = lock_delay;
  if (session.node_checks || numbered) session.lock_delay = std::min<milliseconds>(lock_delay, 60s);
  return result;
}

mutex_set_setup checked(mutex_set_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  check_path(options.prefix, "prefix");
  semaphore_options rest = common_to(options);
  rest.prefix = std::move(options.prefix);
  auto [driver, pool] = checked_rest(std::move(rest));
  driver.session.lock_delay = lock_delay_of_a_mutex(options.lock_delay, pool);
  protocol::mutex_set_options set{driver.name + "/", pool.description,  pool.wall_offset,  pool.waiters_max,
                                  pool.ttl,          pool.lease_margin, pool.outage_grace, pool.give_up_after,
                                  pool.session_idle, pool.watch_wait,   pool.node};
  return {std::move(driver), std::move(set)};
}

protocol::failure wrong_name(const std::string& name) {
  try {
    check_path(name, "name");
    require(!name.starts_with('.'), error::invalid_prefix, "name: begins with a dot");
  } catch (const system_error& e) {
    return {e.code(), {e.what(), name, {}, {}}};
  }
  return {};
}

std::string checked_key(std::string key) {
  check_path(key, "key");
  return key;
}

milliseconds checked_timeout(milliseconds timeout) {
  require(between(timeout, 1ms, 10min), error::invalid_option, "timeout: not between 1 ms and 10 min");
  return timeout;
}

std::string checked_value(std::string value) {
  if (value.empty()) return host_and_pid();
  check_words(value, "value");
  return value;
}

pool_setup checked(election_options options) {
  pool_setup result = checked_mutex(std::move(options.key), common_to(options), mutex_options().courtesy);
  result.core.single = true;
  return result;
}

pool_setup checked(mutex_options options) {
  return checked_mutex(std::move(options.key), common_to(options), options.courtesy);
}

}  // namespace holdfast::runtime

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/setup.hpp"

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "net/percent_encoding.hpp"
#include "net/utf8.hpp"
#include "platform/process_id.hpp"
#include "runtime/boot_clock.hpp"
#include "runtime/outcome.hpp"

namespace holdfast::runtime {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void require(bool holds, error broken, const std::string& rule) {
  if (!holds) throw system_error(make_error_code(broken), rule);
}

bool between(milliseconds value, milliseconds low, milliseconds high) { return low <= value && value <= high; }

std::string host_and_pid() {
  error_code ec;
  const std::string host = boost::asio::ip::host_name(ec);
  return (ec ? "unknown" : host) + ":" + platform::process_id();
}

void check_path(const std::string& path, const std::string& name) {
  require(!path.empty(), error::invalid_prefix, name + ": empty");
  require(!path.starts_with('/'), error::invalid_prefix, name + ": starts with a slash");
  require(!path.ends_with('/') && path.find("//") == std::string::npos, error::invalid_prefix,
          name + ": has an empty segment (two slashes)");
  require(path.size() <= 400, error::invalid_prefix, name + ": over 400 bytes");
  require(net::is_plain_text(path), error::invalid_prefix, name + ": not UTF-8, or with a control character");
  require(!net::has_dot_segment(path), error::invalid_prefix, name + ": has a segment \".\" or \"..\"");
}

/// Checks a text that holdfast puts into an entry, where holdfast may append data of its own.
void check_text(const std::string& text, const std::string& name) {
  require(text.size() <= 1024, error::invalid_option, name + ": over 1 KiB");
  const protocol::entry_lease lease{default_session_ttl, {}, default_session_node};
  const std::string stamped = protocol::with_stamp(text, std::chrono::seconds(1), lease);
  require(
      protocol::parse_entry_value(text).description == text && protocol::parse_entry_value(stamped).description == text,
      error::invalid_option, name + ": ends like the text that holdfast adds to it");
}

void check(bool holds, const std::string& rule) { require(holds, error::invalid_option, rule); }

/// How long the makers on this host are still watched after the last waiter.
constexpr auto makers_watched_for = 10s;

enum class kind { semaphore, mutex, mutex_set, election };

constexpr std::string_view to_string(kind of) {
  switch (of) {
    case kind::semaphore:
      return "semaphore";
    case kind::mutex:
      return "mutex";
    case kind::mutex_set:
      return "mutex_set";
    case kind::election:
      return "election";
  }
  return {};
}

// Each of these functions fails to compile when its structure gets a new member. The author of the member must then
// check it below, use it for the kinds of lock that need it, and test in `unit.runtime_options` that its value arrives.
void know_all_of(const tuning& tuned) {
  [[maybe_unused]] const auto& [lease_margin, lock_delay, outage_grace, give_up_after, request_timeout, alive,
                                session_idle_timeout, waiters_max, local_handoff_time, slot_idle_timeout, claim_timeout,
                                yield_interval, directory] = tuned;
}
void know_all_of(const semaphore_options& options) {
  [[maybe_unused]] const auto& [prefix, limit, use_recorded_limit, numbered, lock_key, description, session_ttl,
                                session_node, node_health_checks, log, its_tracer, tuned] = options;
}
void know_all_of(const mutex_options& options) {
  [[maybe_unused]] const auto& [key, description, session_ttl, session_node, node_health_checks, log, its_tracer,
                                tuned] = options;
}
void know_all_of(const mutex_set_options& options) {
  [[maybe_unused]] const auto& [prefix, description, session_ttl, session_node, node_health_checks, log, its_tracer,
                                tuned] = options;
}
void know_all_of(const election_options& options) {
  [[maybe_unused]] const auto& [key, session_ttl, session_node, node_health_checks, log, its_tracer, tuned] = options;
}

/// Takes over an option that was set. Throws if this kind of lock does not use it, or if it is out of range.
void take(const std::optional<milliseconds>& given, const std::string& name, bool is_of_use, protocol::duration& into) {
  if (!given) return;
  check(is_of_use, "tuning." + name + ": not an option of this lock");
  check(between(*given, 0ms, 24h), "tuning." + name + ": negative or over 24 h");
  into = *given;
}

/// Checks and takes over the options that several kinds of lock have. It checks `tuning.lock_delay`, but leaves it to
/// the caller to take it over. `name` is the lock's name for people.
template <class Options, class CoreOptions>
void take_common(Options& options, const std::string& name, kind of, setup<CoreOptions>& result) {
  protocol::core_options& core = result.core;
  const tuning& tuned = options.tuning;
  know_all_of(options);
  know_all_of(tuned);
  require(between(options.session_ttl, 1ms, 24h), error::invalid_ttl, "session_ttl: not between 1 ms and 24 h");
  check(options.session_node.size() <= 128 && net::is_plain_text(options.session_node),
        "session_node: over 128 bytes, not UTF-8, or with a control character");
  check(!options.node_health_checks || options.session_node.empty(),
        "node_health_checks: only the agent's own node has one (session_node)");
  core.ttl = options.session_ttl;
  const milliseconds margin = tuned.lease_margin.value_or(options.session_ttl / 10);
  check((!tuned.lease_margin || margin > 0ms) && margin <= options.session_ttl / 2,
        "tuning.lease_margin: not above 0, or over half the TTL");
  core.lease_margin = margin;
  check(!tuned.lock_delay || between(*tuned.lock_delay, 0ms, 60s), "tuning.lock_delay: not between 0 and 60 s");
  const milliseconds least = std::min<milliseconds>(options.session_ttl, 60s);
  check(
      !options.node_health_checks || tuned.lock_delay.value_or(least) >= least,
      "tuning.lock_delay: under the TTL; after a failed health check, a holder with a slow clock may count its slot as "
      "held for that time");
  take(tuned.outage_grace, "outage_grace", true, core.outage_grace);
  take(tuned.give_up_after, "give_up_after", true, core.give_up_after);
  take(tuned.session_idle_timeout, "session_idle_timeout", of != kind::election, core.session_idle_timeout);
  check(!tuned.waiters_max || of != kind::election, "tuning.waiters_max: an election has no local queue");
  check(tuned.waiters_max.value_or(1) >= 1, "tuning.waiters_max: 0");
  core.waiters_max = tuned.waiters_max.value_or(core.waiters_max);
  const milliseconds timeout =
      tuned.request_timeout.value_or(std::clamp<milliseconds>(options.session_ttl / 3, 1ms, 5s));
  check(between(timeout, 1ms, 10min), "tuning.request_timeout: not between 1 ms and 10 min");
  core.wall_offset = std::chrono::system_clock::now().time_since_epoch() - now().time_since_epoch();
  core.alive_within = checked(tuned.alive);
  result.driver.shell.alive = tuned.alive;
  core.watch_wait = std::clamp<milliseconds>(options.session_ttl, 100ms, 10s);

  result.driver.shell.name = name;
  result.driver.shell.account = std::make_shared<lock_account>(name, to_string(of));
  result.store = {.session_name = "holdfast " + name + " by " + host_and_pid(),
                  .ttl = options.session_ttl,
                  .node = options.session_node,
                  .node_checks = options.node_health_checks,
                  .timeout = timeout};
  result.driver.shell.log = std::move(options.log);
  result.driver.shell.tracer = std::move(options.tracer);
  core.node = std::move(options.session_node);
  if constexpr (requires { options.description; }) {
    check_text(options.description, "description");
    core.description = options.description.empty() ? host_and_pid() : std::move(options.description);
  }
}

/// Checks and takes over the options for queues. Kinds of lock that do not use one of them refuse it.
void take_queues(const tuning& tuned, kind of, protocol::pool_options& pool) {
  const bool is_queue = of == kind::semaphore || of == kind::mutex;
  take(tuned.local_handoff_time, "local_handoff_time", is_queue, pool.local_handoff_time);
  take(tuned.slot_idle_timeout, "slot_idle_timeout", is_queue, pool.slot_idle_timeout);
  take(tuned.claim_timeout, "claim_timeout", of == kind::semaphore, pool.claim_timeout);
  take(tuned.yield_interval, "yield_interval", of == kind::mutex, pool.yield_interval);
}

/// Finds the run directory. A path in `tuning` must be usable, or empty for none. `usual_path()` need not be usable.
void take_run_directory(const tuning& tuned, pool_setup& result) {
  const std::string path = tuned.run_directory ? *tuned.run_directory : run_directory::usual_path();
  result.driver.directory = run_directory::open(path);
  check(result.driver.directory || path.empty() || !tuned.run_directory,
        "tuning.run_directory: not a directory on a local file system");
  if (!result.driver.directory) return;
  result.core.watch_makers = makers_watched_for;
  result.core.gone_delay = tuned.lock_delay.value_or(0ms);
}

/// The lock delay of a mutex, a mutex set or an election, which Consul itself enforces. If the option is not set, there
/// is a lock delay only on the agent's own node, where sessions may end early. A holder may then still trust its lease
/// for TTL minus margin by its own clock. The lock delay therefore is the whole TTL, up to Consul's maximum, in case
/// the holder's clock is slow. In this case the function throws if Consul's maximum does not cover TTL minus margin.
milliseconds lock_delay_of_a_mutex(const std::optional<milliseconds>& given, const protocol::core_options& core) {
  if (given) return *given;
  if (!core.node.empty()) return 0ms;
  const auto lease = std::chrono::ceil<milliseconds>(core.ttl - core.lease_margin);
  check(lease <= 60s,
        "session_ttl: on the agent's own node (session_node) Consul's lock delay has to cover TTL minus margin, and it "
        "is 60 s at most");
  return std::min<milliseconds>(std::chrono::ceil<milliseconds>(core.ttl), 60s);
}

template <class Options>
pool_setup checked_mutex(Options& options, kind of) {
  const std::string key = checked_key(std::move(options.key));
  pool_setup result;
  take_common(options, key, of, result);
  take_queues(options.tuning, of, result.core);
  take_run_directory(options.tuning, result);
  result.core.prefix = result.core.lock_key = result.driver.lock_key = key;
  result.core.form = protocol::record_form::session;
  result.core.accepts = true;
  result.store.lock_delay = lock_delay_of_a_mutex(options.tuning.lock_delay, result.core);
  return result;
}

}  // namespace

milliseconds checked(const std::optional<alive_check>& alive) {
  if (!alive) return 0ms;
  check(between(alive->within, 10ms, 24h), "tuning.alive: within is not between 10 ms and 24 h");
  check(static_cast<bool>(alive->executor), "tuning.alive: no executor");
  return alive->within;
}

pool_setup checked(semaphore_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  check_path(options.prefix, "prefix");
  require(options.limit >= 1, error::invalid_limit, "limit: 0");
  require(options.limit <= protocol::limit_max, error::invalid_limit,
          "limit: over " + std::to_string(protocol::limit_max));
  check(!options.lock_key.empty() && options.lock_key.find('/') == std::string::npos,
        "lock_key: empty or with a slash");
  check(net::is_plain_text(options.lock_key), "lock_key: not UTF-8, or with a control character");
  check(!net::has_dot_segment(options.lock_key), "lock_key: \".\" or \"..\"");
  pool_setup result;
  take_common(options, options.prefix, kind::semaphore, result);
  take_queues(options.tuning, kind::semaphore, result.core);
  take_run_directory(options.tuning, result);
  protocol::pool_options& core = result.core;
  core.prefix = options.prefix + "/";
  core.lock_key = result.driver.lock_key = core.prefix + options.lock_key;
  core.limit = options.limit;
  core.use_recorded_limit = options.use_recorded_limit;
  core.numbered = options.numbered;
  core.accepts = true;
  store_terms& terms = result.store;
  const auto ttl = std::chrono::ceil<milliseconds>(core.ttl);
  const milliseconds lock_delay =
      options.tuning.lock_delay.value_or(terms.node_checks ? ttl : std::max<milliseconds>(ttl, 15s));
  if (terms.node_checks) core.lock_delay = lock_delay;
  if (terms.node_checks || core.numbered) terms.lock_delay = std::min<milliseconds>(lock_delay, 60s);
  return result;
}

mutex_set_setup checked(mutex_set_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  check_path(options.prefix, "prefix");
  mutex_set_setup result;
  take_common(options, options.prefix, kind::mutex_set, result);
  protocol::pool_options none;
  take_queues(options.tuning, kind::mutex_set, none);
  check(!options.tuning.run_directory, "tuning.run_directory: not an option of this lock");
  result.core.prefix = options.prefix + "/";
  result.store.lock_delay = lock_delay_of_a_mutex(options.tuning.lock_delay, result.core);
  return result;
}

protocol::failure wrong_name(const std::string& name) {
  try {
    check_path(name, "name");
    require(!name.starts_with('.'), error::invalid_prefix, "name: begins with a dot");
  } catch (const system_error& e) {
    return {e.code(), {reason_of(e), name, {}, {}}};
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
  check_text(value, "value");
  return value;
}

pool_setup checked(election_options options) {
  pool_setup result = checked_mutex(options, kind::election);
  result.core.single = true;
  result.core.accept_delay = {};  // observers report the leader only after it has accepted
  return result;
}

pool_setup checked(mutex_options options) { return checked_mutex(options, kind::mutex); }

}  // namespace holdfast::runtime

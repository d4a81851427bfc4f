#include "runtime/pool_options.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/host_name.hpp>
#include <holdfast/error.hpp>
#include <string_view>
#include <utility>

#include "runtime/boot_clock.hpp"

namespace holdfast::runtime {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void require(bool holds, error broken, const char* rule) {
  if (!holds) throw system_error(make_error_code(broken), rule);
}

bool between(milliseconds value, milliseconds low, milliseconds high) { return low <= value && value <= high; }

/// The character at the front of `text`, and how many bytes it takes: 0 if they are not UTF-8.
std::pair<char32_t, std::size_t> front_character(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {};
  char32_t c = lead & (0xff >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    c = c << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = c >= 0xd800 && c <= 0xdfff;
  if (c < least[size] || c > 0x10ffff || surrogate) return {};
  return {c, size};
}

/// Valid UTF-8, as JSON needs it, and nothing that a log or a terminal would take for a command.
bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const auto [c, size] = front_character(text);
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

}  // namespace

semaphore_options checked(semaphore_options options) {
  if (options.prefix.ends_with('/')) options.prefix.pop_back();
  require(!options.prefix.empty(), error::invalid_prefix, "prefix: empty");
  require(!options.prefix.starts_with('/'), error::invalid_prefix, "prefix: starts with a slash");
  require(!options.prefix.ends_with('/') && options.prefix.find("//") == std::string::npos, error::invalid_prefix,
          "prefix: has an empty segment (two slashes)");
  require(options.prefix.size() <= 400, error::invalid_prefix, "prefix: over 400 bytes");
  require(is_plain_text(options.prefix), error::invalid_prefix, "prefix: not UTF-8, or with a control character");
  require(!has_dot_segment(options.prefix), error::invalid_prefix, "prefix: has a segment \".\" or \"..\"");
  require(options.limit >= 1, error::invalid_limit, "limit: 0");
  require(options.limit <= protocol::limit_max, error::invalid_limit, "limit: over 10000");
  require(!options.lock_key.empty() && options.lock_key.find('/') == std::string::npos, error::invalid_option,
          "lock_key: empty or with a slash");
  require(is_plain_text(options.lock_key), error::invalid_option, "lock_key: not UTF-8, or with a control character");
  require(!has_dot_segment(options.lock_key), error::invalid_option, "lock_key: \".\" or \"..\"");
  require(options.description.size() <= 1024, error::invalid_option, "description: over 1 KiB");
  require(between(options.session_ttl, 1ms, 24h), error::invalid_ttl, "session_ttl: not between 1 ms and 24 h");
  if (options.lease_margin == 0ms) options.lease_margin = options.session_ttl / 10;
  require(between(options.lease_margin, 0ms, options.session_ttl / 2), error::invalid_option,
          "lease_margin: over half the TTL");
  require(between(options.lock_delay, 0ms, 60s), error::invalid_option, "lock_delay: not between 0 and 60 s");
  for (const milliseconds each : {options.tenure, options.idle, options.outage_grace, options.give_up_after,
                                  options.patience, options.session_idle})
    require(between(each, 0ms, 24h), error::invalid_option, "a duration is negative or over 24 h");
  require(between(options.request_timeout, 0ms, 10min), error::invalid_option,
          "request_timeout: negative or over 10 min");
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
  result.adopt = checked.adopt;
  result.wall_offset = std::chrono::system_clock::now().time_since_epoch() - now().time_since_epoch();
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

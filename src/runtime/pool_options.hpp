#pragma once

#include <chrono>
#include <functional>
#include <holdfast/consul/session.hpp>
#include <holdfast/options.hpp>
#include <optional>
#include <string>

#include "protocol/mutex_set.hpp"
#include "protocol/pool.hpp"

namespace holdfast::runtime {

/// All that the driver has to know.
struct driver_options {
  std::string name{};  ///< the prefix without its trailing slash, or the key
  protocol::pool_options pool{};
  std::optional<protocol::mutex_set_options> set{};  ///< in the place of a pool
  consul::session_options session{};
  std::chrono::milliseconds request_timeout{};
  std::function<void(const std::string&)> log{};
  bool single = false;  ///< for one acquire: it closes by itself when that is answered, and what it gave is released
};

// Check the options and fill in their defaults. They throw `system_error`, one rule at a time: invalid_prefix,
// invalid_limit, invalid_ttl, invalid_option.
driver_options checked(semaphore_options options);
driver_options checked(mutex_options options);
driver_options checked(mutex_set_options options);
/// Of each campaign; the description is its own.
driver_options checked(election_options options);
/// What is wrong with the name of a lock of a set: invalid_prefix, or nothing.
protocol::failure wrong_name(const std::string& name);
/// A mutex's key. Throws invalid_prefix.
std::string checked_key(std::string key);
/// Of one order. Throws invalid_option.
std::chrono::milliseconds checked_timeout(std::chrono::milliseconds timeout);
/// The value of a campaign, or a proclaimed one; "host:pid" for an empty one. Throws invalid_option.
std::string checked_value(std::string value);

}  // namespace holdfast::runtime

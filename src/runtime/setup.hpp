#pragma once

#include <chrono>
#include <functional>
#include <holdfast/options.hpp>
#include <string>

#include "protocol/mutex_set.hpp"
#include "protocol/pool.hpp"
#include "runtime/store.hpp"

namespace holdfast::runtime {

/// All that a driver has to know besides its core and its store.
struct driver_options {
  std::string name{};  ///< the prefix without its trailing slash, or the key
  std::function<void(const std::string&)> log{};
  std::chrono::milliseconds ttl{};  ///< of its sessions
};

/// Options that were checked, and have their defaults: the driver's, its store's and its core's.
template <class CoreOptions>
struct setup {
  driver_options driver{};
  store_terms store{};
  CoreOptions core{};
};
using pool_setup = setup<protocol::pool_options>;
using mutex_set_setup = setup<protocol::mutex_set_options>;

// Check the options and fill in their defaults. They throw `system_error`, one rule at a time: invalid_prefix,
// invalid_limit, invalid_ttl, invalid_option.
pool_setup checked(semaphore_options options);
pool_setup checked(mutex_options options);
mutex_set_setup checked(mutex_set_options options);
/// Of each campaign; the description is its own.
pool_setup checked(election_options options);
/// What is wrong with the name of a lock of a set: invalid_prefix, or nothing.
protocol::failure wrong_name(const std::string& name);
/// A mutex's key. Throws invalid_prefix.
std::string checked_key(std::string key);
/// Of one order. Throws invalid_option.
std::chrono::milliseconds checked_timeout(std::chrono::milliseconds timeout);
/// The value of a campaign, or a proclaimed one; "host:pid" for an empty one. Throws invalid_option.
std::string checked_value(std::string value);

}  // namespace holdfast::runtime

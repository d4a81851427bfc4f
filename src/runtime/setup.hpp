// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <functional>
#include <holdfast/detail/export.hpp>
#include <holdfast/options.hpp>
#include <optional>
#include <string>

#include "protocol/mutex_set/mutex_set.hpp"
#include "protocol/pool/pool.hpp"
#include "runtime/run_directory.hpp"
#include "runtime/shell.hpp"
#include "runtime/store.hpp"

namespace holdfast::runtime {

/// The options of a driver, apart from its core and its store.
struct driver_options {
  detail::shell_options shell{};       ///< the name is the prefix without its trailing slash, or the key
  run_directory* directory = nullptr;  ///< null if there is none
  std::string lock_key{};              ///< of a semaphore, mutex or election
};

/// Checked options, with defaults filled in, for the driver, its store and its core.
template <class CoreOptions>
struct setup {
  driver_options driver{};
  store_terms store{};
  CoreOptions core{};
};
using pool_setup = setup<protocol::pool_options>;
using mutex_set_setup = setup<protocol::mutex_set_options>;

// Check the options and fill in their defaults. For the first rule that is broken they throw a `system_error` with
// invalid_prefix, invalid_limit, invalid_ttl or invalid_option.
pool_setup checked(semaphore_options options);
pool_setup checked(mutex_options options);
mutex_set_setup checked(mutex_set_options options);
/// The setup of each campaign. The campaign's value replaces the description.
pool_setup checked(election_options options);
/// Checks the name of a lock of a set. Returns invalid_prefix if the name is not valid, else success.
protocol::failure wrong_name(const std::string& name);
/// Checks the key of a mutex or of an election. Throws invalid_prefix.
std::string checked_key(std::string key);
/// Checks the option. Returns its time, or 0 if it is not set. Throws invalid_option.
HOLDFAST_INTERNAL std::chrono::milliseconds checked(const std::optional<alive_check>& alive);
/// Checks the timeout of a command. Throws invalid_option.
HOLDFAST_INTERNAL std::chrono::milliseconds checked_timeout(std::chrono::milliseconds timeout);
/// Checks the value of a campaign or of a proclaim. Returns "host:pid" for an empty value. Throws invalid_option.
std::string checked_value(std::string value);

}  // namespace holdfast::runtime

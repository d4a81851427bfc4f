#pragma once

#include <holdfast/options.hpp>

#include "protocol/pool.hpp"

namespace holdfast::runtime {

/// The options with their defaults filled in and the prefix without its trailing slash. Throws `system_error`, one rule
/// at a time: invalid_prefix, invalid_limit, invalid_ttl, invalid_option.
semaphore_options checked(semaphore_options options);

std::chrono::milliseconds request_timeout(const semaphore_options& checked);
protocol::pool_options to_pool_options(const semaphore_options& checked);

}  // namespace holdfast::runtime

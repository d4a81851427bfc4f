// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/rabbitmq/config.hpp>
#include <vector>

#include "rabbitmq/address.hpp"

namespace holdfast::rabbitmq::detail {

/// The largest timeout or pause that an option may set.
inline constexpr std::chrono::milliseconds time_max = std::chrono::minutes(10);

/// Returns the addresses of the broker, at least one. If a field breaks a rule, throws `system_error`, which names the
/// rule. The text has nothing of an address or a password. Does not read files: `password_source` and `make_tls_client`
/// check them.
std::vector<broker_address> check(const config& c);

}  // namespace holdfast::rabbitmq::detail

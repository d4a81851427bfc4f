// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/rabbitmq/options.hpp>

#include "protocol/broker/broker_options.hpp"
#include "rabbitmq/broker_link.hpp"
#include "runtime/shell.hpp"

namespace holdfast::rabbitmq::detail {

/// Checked options for the driver, its link and its core.
struct broker_setup {
  holdfast::detail::shell_options shell{};
  link_terms link{};
  protocol::broker_options core{};
};

/// Checks the options. For the first rule that is broken it throws a `system_error` with invalid_name, invalid_ttl or
/// invalid_option.
broker_setup checked(semaphore_options options);

}  // namespace holdfast::rabbitmq::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/rabbitmq/config.hpp>
#include <string>
#include <string_view>

#include "rabbitmq/address.hpp"
#include "rabbitmq/dialogue.hpp"

namespace holdfast::rabbitmq::detail {

/// Provides the login of new connections, from the address, the options and the file of the password. Lives on the
/// strand.
class login_source {
public:
  /// Reads the file. Throws `system_error`: invalid_option, if it cannot be read or has no password.
  explicit login_source(const config& settings);

  /// Returns the login for a connection that is made now. If the file cannot be used, the last password stays in use,
  /// and `complain` is called once for each new reason.
  login get(const broker_address& to, const std::function<void(std::string)>& complain);

  /// Returns the text, in which the password for this address is replaced: a broker may repeat it.
  std::string without_secrets(std::string text, const broker_address& of) const;

private:
  void read_again(const std::function<void(std::string)>& complain);

  const config& settings_;
  std::string password_;
  std::string complaint_{};
};

}  // namespace holdfast::rabbitmq::detail

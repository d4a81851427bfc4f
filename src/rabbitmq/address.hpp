// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "net/address.hpp"

namespace holdfast::rabbitmq::detail {

/// The largest sizes of a user name, which is RabbitMQ's limit, and of a password: a login must fit into a frame of
/// 4,096 bytes.
inline constexpr std::size_t user_bytes_max = 255;
inline constexpr std::size_t password_bytes_max = 1024;

/// The address of a broker, and what it says of the login.
struct broker_address : net::address {
  bool is_tls = false;
  std::optional<std::string> user{};      ///< if the address names one, which may be empty
  std::optional<std::string> password{};  ///< the same
  std::string virtual_host = "/";

  /// Returns the address without user and password, for messages. Without these, `parse_address` gives the same address
  /// for it.
  std::string to_string() const;
  bool operator==(const broker_address&) const = default;
};

/// Parses `amqp://` or `amqps://` as RabbitMQ's URI specification describes it, or `host[:port]`. The default ports are
/// 5672 and 5671, and a URI without a host is for localhost. User, password, host and virtual host may be
/// percent-encoded. A URI that ends behind its host means the virtual host "/", and one that ends with the slash behind
/// its host means the virtual host "". Query parameters are refused, because each client gives them another meaning.
///
/// Any other scheme is error::unsupported_scheme, and any other text error::invalid_address. `out` is not changed then,
/// and `cause` names the part that is wrong. It has nothing of the text, which may contain a password.
error_code parse_address(std::string_view text, broker_address& out, std::string_view& cause);

}  // namespace holdfast::rabbitmq::detail

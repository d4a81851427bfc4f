// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <holdfast/detail/export.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/tls_options.hpp>
#include <holdfast/tracer.hpp>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::rabbitmq {

/// The settings of a client of RabbitMQ. The client's constructor checks them.
struct config {
  /// The address of the broker: `amqp://[user[:password]@][host][:port][/virtual-host]` (default port 5672), the same
  /// with `amqps://` (default port 5671), or `host[:port]`. Its parts are percent-encoded, so the virtual host "/" is
  /// `%2F`. Without a virtual host, "/" is used.
  std::string address = "localhost";
  /// Several addresses of one broker, which replace `address`; at most 16. Each new connection tries them in this
  /// order, beginning with the one that has worked last. Two brokers that do not share their queues must never be in
  /// one list: then two processes may hold the same slot.
  std::vector<std::string> addresses{};

  /// The name of the user. An address that names a user overrides it. 1 to 255 bytes without a zero byte, or empty:
  /// then with `tls.certificate_file` the client logs in by that certificate (EXTERNAL), and else as `guest`.
  std::string user{};
  /// The password of the user. An address that has a password overrides it. At most 1,024 bytes without a zero byte.
  /// Never logged. If neither a user nor a password is given anywhere, it is `guest`.
  std::string password{};
  /// The path of a file with the password. An address that has a password overrides it. Excludes `password`.
  /// Spaces and line ends at both ends of the text are removed. The client's constructor reads the file, and each new
  /// connection reads it again. If it cannot be used any more, that is logged without the password, and the last
  /// password stays in use.
  std::string password_file{};

  tls_options tls{};

  /// The timeout of each request to the broker, apart from the time to connect. 1 ms to 10 min. When it is over, the
  /// connection of the request is closed.
  std::chrono::milliseconds request_timeout{5'000};
  /// The timeout of connecting, which includes name resolution, the TLS handshake and the login. 1 ms to 10 min.
  std::chrono::milliseconds connect_timeout{2'000};
  /// The bound of the first pause before a connection for hints or probes is made anew, 1 ms to 10 min. The bound
  /// doubles with each failure up to `backoff_max`. Each pause is random between 0 and its bound (full jitter).
  std::chrono::milliseconds backoff_min{20};
  /// The largest bound of such a pause, 1 ms to 10 min. At least `backoff_min`.
  std::chrono::milliseconds backoff_max{1'000};

  /// Called with the events that operators want to know. Empty: nothing is logged. The client logs:
  ///
  /// - that the broker has an alarm and takes no messages, and that the alarm is over;
  /// - that a new password or a new certificate cannot be used;
  /// - once, that TLS does not verify the broker.
  log_function log{};
  /// The tracer is notified of each request. Null: nothing is traced.
  std::shared_ptr<holdfast::tracer> tracer{};

  /// Returns the defaults, and the address in the environment variable AMQP_URL if it is set and not empty. Throws
  /// `system_error`: invalid_address, unsupported_scheme.
  HOLDFAST_EXPORT static config from_environment();
};

}  // namespace holdfast::rabbitmq

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <holdfast/testing/server.hpp>

namespace holdfast::testing {

/// A proxy between a client and a real agent, which makes the same faults happen with that agent.
///
/// Each client connection has its own connection to the agent. That is opened for the first request, and again if the
/// agent has closed it. It is closed with the client's. If the agent does not answer a request, the client's connection
/// is reset. The proxy sends replies whole, with a Content-Length. The body of a request or a reply may have at most
/// 64 MiB. `expire_session` destroys the session at the agent, on a connection of its own.
class HOLDFAST_EXPORT proxy : public front {
public:
  /// Runs on a thread of its own. `agent` is "host:port", where the host is an IP literal. Without a port, the port is
  /// 8500. Throws `system_error` with error::invalid_address for another text, and otherwise like the constructor of
  /// `server`.
  explicit proxy(const std::string& agent, const server_options& options = {});
  /// Runs in the user's execution context.
  proxy(asio::any_io_executor executor, const std::string& agent, const server_options& options = {});
};

}  // namespace holdfast::testing

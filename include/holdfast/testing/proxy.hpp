#pragma once

#include <holdfast/testing/server.hpp>

namespace holdfast::testing {

/// Stands between a client and a real agent, so that the same faults happen there. Each connection has one of its own
/// to the agent, opened with its first request and closed with it; when that fails, the client's is reset. Replies come
/// whole, with a Content-Length, and of at most 64 MiB. `expire_session` destroys the session at the agent.
class proxy : public front {
public:
  /// On a thread of its own. `agent` is "host:port", the host an IP literal: error::invalid_address. Throws as `server`
  /// does.
  explicit proxy(const std::string& agent, const server_options& options = {});
  /// In the user's context.
  proxy(asio::any_io_executor executor, const std::string& agent, const server_options& options = {});
};

}  // namespace holdfast::testing

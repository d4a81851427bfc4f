#pragma once

#include <holdfast/testing/server.hpp>

namespace holdfast::testing {

/// Stands between a client and a real agent, so that the same faults happen there. One request at a time on each
/// connection, which has one of its own to the agent. `expire_session` destroys the session at the agent.
class proxy : public front {
public:
  /// On a thread of its own. `agent` is "host:port", the host an IP literal. Throws as `server` does.
  explicit proxy(std::string agent, server_options options = {});
  /// In the user's context.
  proxy(asio::any_io_executor executor, std::string agent, server_options options = {});
  ~proxy();

private:
  class forwarding_backend;
};

}  // namespace holdfast::testing

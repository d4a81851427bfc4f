#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/support/network.hpp"
#include "support/agent.hpp"

namespace holdfast::test {

/// Three servers, which keep their state on disk, and client agents. On loopback addresses; or, with a network, each on
/// a host of its own: servers on 1, 2, 3, client agents from 4 on.
class cluster {
public:
  static constexpr int server_count = 3;

  /// Returns when it is healthy. The network must outlive it. The rest: see `agent_options`.
  explicit cluster(int clients, const network* net = nullptr, bool as_shipped = false,
                   const std::string& extra_config = "{}", const std::string& tls_config = {});

  agent& server(int index) { return *servers_.at(static_cast<std::size_t>(index)); }
  agent& client(int index) { return *clients_.at(static_cast<std::size_t>(index)); }
  /// Which of the servers leads: only meaningful while it is healthy.
  int leader() const;
  /// Waits until three voters agree on a leader and every agent takes writes. Throws if that takes too long.
  void wait_until_healthy(std::chrono::milliseconds limit = std::chrono::seconds(60)) const;

private:
  /// Nothing if the servers do not agree, or one of them does not answer.
  std::optional<int> agreed_leader() const;
  bool three_voters() const;

  std::vector<std::unique_ptr<agent>> servers_;
  std::vector<std::unique_ptr<agent>> clients_;
};

}  // namespace holdfast::test

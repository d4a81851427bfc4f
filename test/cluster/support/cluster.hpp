// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/support/network.hpp"
#include "support/agent.hpp"

namespace holdfast::test {

/// Three servers, which keep their state on disk, and client agents. They have loopback addresses. With a network, each
/// of them has a host of its own: servers have hosts 1, 2, 3, and client agents have hosts from 4 on.
class cluster {
public:
  static constexpr int server_count = 3;

  /// Returns when the cluster is healthy. The network must outlive it. For the other parameters see `agent_options`.
  explicit cluster(int clients, const network* net = nullptr, bool as_shipped = false,
                   const std::string& extra_config = "{}", const std::string& tls_config = {});

  agent& server(int index) { return *servers_.at(static_cast<std::size_t>(index)); }
  agent& client(int index) { return *clients_.at(static_cast<std::size_t>(index)); }
  /// The index of the server that leads. Only meaningful while the cluster is healthy.
  int leader() const;
  /// Waits until three voters agree on a leader and every agent takes writes. Throws if that takes too long.
  void wait_until_healthy(std::chrono::milliseconds limit = std::chrono::seconds(60)) const;

private:
  /// Empty if the servers do not agree, or one of them does not answer.
  std::optional<int> agreed_leader() const;
  bool three_voters() const;

  std::vector<std::unique_ptr<agent>> servers_;
  std::vector<std::unique_ptr<agent>> clients_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <holdfast/consul/client.hpp>
#include <holdfast/consul/config.hpp>
#include <holdfast/testing/server.hpp>
#include <optional>
#include <string>

namespace example {

/// The Consul of an example. It is the real agent that --consul names, or else a fake in this process. The constructor
/// prints the fake's banner on stderr, so that the example's own output is the same with both.
class agent {
public:
  explicit agent(const std::string& url);

  const holdfast::consul::config& config() const noexcept { return config_; }
  /// The value of --consul with which other processes use the same Consul.
  const std::string& url() const noexcept { return url_; }
  std::string description() const;  ///< "Consul at http://..." or "fake Consul at http://..."

  /// Runs `body` to its end, on one thread, with a client of this Consul.
  void run(const std::function<boost::asio::awaitable<void>(holdfast::consul::client)>& body) const;

private:
  std::optional<holdfast::testing::server> fake_;
  holdfast::consul::config config_;
  std::string url_;
};

}  // namespace example

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "agent.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <iostream>

namespace example {

agent::agent(const std::string& url) : url_(url) {
  if (!url.empty()) {
    config_ = holdfast::consul::config::from_environment();  // for the token and TLS; `url` is the address
    config_.address = url;
    return;
  }
  holdfast::testing::server_options options;
  options.model.session_ttl_min = std::chrono::milliseconds(100);  // not 10 s, so that examples are fast
  fake_.emplace(options);
  config_ = fake_->client_config();
  url_ = fake_->url();
  std::cerr << holdfast::testing::server::banner << " It is at " << url_ << "; for a real agent: --consul URL"
            << std::endl;
}

std::string agent::description() const { return (fake_ ? "fake Consul at " : "Consul at ") + url_; }

void agent::run(const std::function<boost::asio::awaitable<void>(holdfast::consul::client)>& body) const {
  boost::asio::io_context io;
  const holdfast::consul::client consul(io, config_);
  auto result = boost::asio::co_spawn(io, body(consul), boost::asio::use_future);
  io.run();
  result.get();
}

}  // namespace example

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <memory>
#include <string>

#include "rabbitmq/broker_link.hpp"
#include "rabbitmq/client_impl.hpp"

namespace holdfast::rabbitmq::detail {

class link_impl;

/// The link of one semaphore to a real broker. Each seat has a connection of its own. Probes and hints of all links of
/// a client share one more.
class amqp_link final : public broker_link {
public:
  amqp_link(std::shared_ptr<client_impl> client, link_terms terms);

  asio::any_io_executor executor() const noexcept override { return client_->executor(); }
  asio::any_io_executor strand() const override { return client_->erased_strand(); }
  std::string name() const override { return client_->name(); }
  void make(link_request&& what, const std::shared_ptr<broker_sink>& to) override;

private:
  const std::shared_ptr<client_impl> client_;
  const std::shared_ptr<link_impl> impl_;
};

}  // namespace holdfast::rabbitmq::detail

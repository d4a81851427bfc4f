// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/amqp_link.hpp"

#include <boost/asio/post.hpp>
#include <utility>
#include <variant>

#include "rabbitmq/link_impl.hpp"

namespace holdfast::rabbitmq::detail {

amqp_link::amqp_link(std::shared_ptr<client_impl> client, link_terms terms)
    : client_(std::move(client)), impl_(std::make_shared<link_impl>(client_, std::move(terms))) {}

// In a child of fork() nothing is done, because its bytes would go into the parent's connections.
void amqp_link::make(link_request&& what, const std::shared_ptr<broker_sink>& to) {
  if (client_->process().is_foreign() || !client_->strand()) return;
  asio::post(*client_->strand(), [impl = impl_, what = std::move(what), to] {
    impl->watch_alarms(to);
    std::visit([&](const auto& each) { impl->on(each, to); }, what);
  });
}

}  // namespace holdfast::rabbitmq::detail

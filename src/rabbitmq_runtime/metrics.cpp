// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/prometheus.hpp>
#include <holdfast/rabbitmq/client.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "rabbitmq/client_impl.hpp"

namespace holdfast::rabbitmq {

void add_to(prometheus_text& metrics, const client& broker, std::string name) {
  const auto read = [weak = std::weak_ptr(detail::impl_of(broker))]() -> std::optional<broker_statistics> {
    const auto its = weak.lock();
    return its ? std::optional(its->statistics()) : std::nullopt;
  };
  metrics.add(read, std::move(name));
}

}  // namespace holdfast::rabbitmq

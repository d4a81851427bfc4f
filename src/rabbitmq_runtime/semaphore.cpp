// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <cstdint>
#include <holdfast/rabbitmq/semaphore.hpp>
#include <holdfast/rabbitmq/slot.hpp>
#include <memory>
#include <random>
#include <utility>

#include "lifetime/context_hook.hpp"
#include "rabbitmq/amqp_link.hpp"
#include "rabbitmq_runtime/broker_driver.hpp"
#include "rabbitmq_runtime/broker_setup.hpp"
#include "rabbitmq_runtime/slot_impl.hpp"

namespace holdfast::rabbitmq {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

std::shared_ptr<holdfast::detail::shell> make_driver(const client& broker, detail::broker_setup its) {
  auto link = std::make_unique<detail::amqp_link>(detail::impl_of(broker), std::move(its.link));
  auto made = lifetime::make_hooked<detail::broker_driver>(std::move(link), std::move(its.shell), std::move(its.core),
                                                           random_seed());
  made->start();
  return made;
}

}  // namespace

semaphore::semaphore(const client& broker, semaphore_options options)
    : slot_source(make_driver(broker, detail::checked(std::move(options)))) {}

const std::string& semaphore::name() const noexcept { return holdfast::detail::name_of(impl_); }

std::uint32_t slot::number() const noexcept {
  return valid() ? static_cast<const detail::slot_impl&>(*holdfast::detail::impl_of(*this)).number : 0;
}

}  // namespace holdfast::rabbitmq

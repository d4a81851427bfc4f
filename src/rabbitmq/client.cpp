// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/rabbitmq/client.hpp>
#include <utility>

#include "rabbitmq/client_impl.hpp"

namespace holdfast::rabbitmq {

namespace detail {

const std::shared_ptr<client_impl>& impl_of(const client& handle) noexcept { return handle.impl_; }

}  // namespace detail

client::client(const executor_type& executor, config settings)
    : impl_(detail::client_impl::make(executor, std::move(settings))) {}

client::executor_type client::get_executor() const noexcept { return impl_ ? impl_->executor() : executor_type(); }
const std::string& client::name() const noexcept {
  static const std::string none;
  return impl_ ? impl_->name() : none;
}
broker_statistics client::statistics() const { return impl_ ? impl_->statistics() : broker_statistics(); }
void client::close() const {
  if (impl_) impl_->close();
}

}  // namespace holdfast::rabbitmq

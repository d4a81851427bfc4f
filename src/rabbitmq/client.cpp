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

client::executor_type client::get_executor() const noexcept { return impl_->executor(); }
const std::string& client::name() const noexcept { return impl_->name(); }
broker_statistics client::statistics() const { return impl_->statistics(); }
void client::close() const { impl_->close(); }

}  // namespace holdfast::rabbitmq

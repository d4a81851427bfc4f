// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/semaphore.hpp>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"

namespace holdfast {

namespace detail {

const asio::any_io_executor& executor_of(const driver& impl) noexcept { return impl.get_executor(); }

void start_acquire(const std::shared_ptr<driver>& impl, const acquire_request& request, pending<slot>&& handler) {
  impl->acquire(request, std::move(handler));
}

void start_close(const std::shared_ptr<driver>& impl, pending<>&& handler) { impl->close(std::move(handler)); }

}  // namespace detail

slot_source& slot_source::operator=(slot_source&& other) noexcept {
  slot_source old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

slot_source::~slot_source() {
  if (impl_) impl_->abandon();
}

semaphore_statistics slot_source::statistics() const noexcept { return impl_->statistics(); }

semaphore::semaphore(const lock_store& where, semaphore_options options)
    : slot_source(detail::make_driver(where, runtime::checked(std::move(options)))) {}

const std::string& semaphore::prefix() const noexcept { return impl_->name(); }
std::uint32_t semaphore::limit() const noexcept { return impl_->limit(); }

}  // namespace holdfast

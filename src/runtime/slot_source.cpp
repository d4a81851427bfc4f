// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/slot_source.hpp>
#include <utility>

#include "runtime/shell.hpp"
#include "runtime/statistics_access.hpp"

namespace holdfast {

namespace detail {

const asio::any_io_executor& executor_of(const shell& impl) noexcept { return impl.get_executor(); }

void start_acquire(const std::shared_ptr<shell>& impl, const acquire_request& request, pending<hold>&& handler) {
  impl->acquire(request, std::move(handler));
}

void start_close(const std::shared_ptr<shell>& impl, pending<>&& handler) { impl->close(std::move(handler)); }

}  // namespace detail

namespace detail {

std::shared_ptr<runtime::lock_account> statistics_access::account(const slot_source& lock) {
  return lock.impl_ ? lock.impl_->account() : nullptr;
}

}  // namespace detail

slot_source& slot_source::operator=(slot_source&& other) noexcept {
  slot_source old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

slot_source::~slot_source() {
  if (impl_) impl_->abandon();
}

lock_statistics slot_source::statistics() const noexcept { return impl_ ? impl_->statistics() : lock_statistics(); }

}  // namespace holdfast

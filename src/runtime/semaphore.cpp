#include <holdfast/semaphore.hpp>
#include <utility>

#include "runtime/driver.hpp"

namespace holdfast {

namespace detail {

const asio::any_io_executor& executor_of(const driver& impl) noexcept { return impl.get_executor(); }

void start_acquire(const std::shared_ptr<driver>& impl, const acquire_request& request,
                   pending<error_code, slot>&& handler) {
  impl->acquire(request, std::move(handler));
}

void start_close(const std::shared_ptr<driver>& impl, pending<error_code>&& handler) {
  impl->close(std::move(handler));
}

}  // namespace detail

semaphore::semaphore(consul::client client, semaphore_options options)
    : impl_(std::make_shared<detail::driver>(std::move(client), std::move(options))) {}

semaphore& semaphore::operator=(semaphore&& other) noexcept {
  semaphore old(std::move(*this));
  impl_ = std::move(other.impl_);
  return *this;
}

semaphore::~semaphore() {
  if (impl_) impl_->abandon();
}

const std::string& semaphore::prefix() const noexcept { return impl_->options().prefix; }
std::uint32_t semaphore::limit() const noexcept { return impl_->limit(); }
semaphore_statistics semaphore::statistics() const noexcept { return impl_->statistics(); }

}  // namespace holdfast

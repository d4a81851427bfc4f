#include <boost/asio/use_awaitable.hpp>
#include <holdfast/mutex.hpp>
#include <utility>

#include "runtime/driver.hpp"

namespace holdfast {

mutex::mutex(consul::client client, mutex_options options)
    : pool_handle(detail::make_driver(std::move(client), runtime::checked(std::move(options)))) {}

const std::string& mutex::key() const noexcept { return impl_->name(); }

asio::awaitable<bool> verify(consul::client client, sequencer claimed) {
  consul::read_options read;
  read.mode = consul::consistency::consistent;
  const auto seen = co_await client.get(claimed.key, read, asio::use_awaitable);
  co_return !claimed.session.empty() && seen.value && seen.value->session == claimed.session &&
      seen.value->lock_index == claimed.lock_index &&
      (claimed.create_index == 0 || seen.value->create_index == claimed.create_index);
}

}  // namespace holdfast

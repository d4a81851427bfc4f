// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/slot.hpp>
#include <memory>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/slot_impl.hpp"

namespace holdfast {

namespace detail {

slot_impl::slot_impl(std::shared_ptr<driver> of, lifetime::process_mark process, protocol::slot_id id,
                     fencing_token token, std::uint32_t count, std::vector<std::uint32_t> numbers,
                     protocol::time_point deadline)
    : hold_impl(std::move(of), process, id, deadline), token(token), count(count), numbers(std::move(numbers)) {}

std::shared_ptr<driver> slot_impl::its_driver() const noexcept { return std::static_pointer_cast<driver>(owner); }

const asio::any_io_executor& executor_of(const slot_impl& impl) noexcept { return impl.owner->get_executor(); }

std::shared_ptr<slot_impl> slot_impl_of(const slot& handle) noexcept {
  return std::static_pointer_cast<slot_impl>(impl_of(handle));
}

void start_sequencer(const std::shared_ptr<slot_impl>& impl, pending<sequencer>&& handler) {
  impl->its_driver()->sequencer(*impl, std::move(handler));
}

}  // namespace detail

const detail::slot_impl* slot::impl() const noexcept {
  return static_cast<const detail::slot_impl*>(detail::impl_of(*this).get());
}

fencing_token slot::fencing_token() const noexcept { return valid() ? impl()->token : holdfast::fencing_token(); }
std::uint32_t slot::count() const noexcept { return valid() ? impl()->count : 0; }
std::vector<std::uint32_t> slot::numbers() const { return valid() ? impl()->numbers : std::vector<std::uint32_t>(); }
std::vector<consul::txn_operation> slot::fence_checks() const {
  auto checks = held() ? impl()->its_driver()->fence_checks(*impl()) : std::vector<consul::txn_operation>();
  if (checks.empty() && held())
    throw system_error(make_error_code(boost::system::errc::operation_not_supported),
                       "fence_checks: a local_store is not in Consul, so no transaction there can check this slot");
  if (checks.empty()) throw system_error(state() == slot_state::lost ? error::slot_lost : error::not_held);
  return checks;
}
std::vector<int> slot::maker_files() const {
  return held() ? impl()->its_driver()->maker_files(*impl()) : std::vector<int>();
}

}  // namespace holdfast

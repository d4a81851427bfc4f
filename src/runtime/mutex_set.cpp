// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/mutex_set.hpp>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"

namespace holdfast {

namespace detail {

void start_try_lock(const std::shared_ptr<shell>& impl, const std::string& name, const operation_options& options,
                    pending<hold>&& handler) {
  const protocol::failure wrong = runtime::wrong_name(name);
  if (wrong.code) return impl->refuse(wrong, options.diag, std::move(handler));
  impl->acquire(once(options), std::move(handler), name);
}

}  // namespace detail

mutex_set::mutex_set(const lock_store& where, mutex_set_options options)
    : slot_source(detail::make_driver(where, runtime::checked(std::move(options)))) {}

const std::string& mutex_set::prefix() const noexcept { return detail::name_of(impl_); }

}  // namespace holdfast

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/semaphore.hpp>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"

namespace holdfast {

semaphore::semaphore(const lock_store& where, semaphore_options options)
    : slot_source(detail::make_driver(where, runtime::checked(std::move(options)))) {}

const std::string& semaphore::prefix() const noexcept { return detail::name_of(impl_); }
std::uint32_t semaphore::limit() const noexcept { return impl_ ? impl_->limit() : 0; }

}  // namespace holdfast

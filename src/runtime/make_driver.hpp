// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/lock_store.hpp>
#include <memory>

#include "runtime/driver.hpp"
#include "runtime/setup.hpp"

namespace holdfast::detail {

// Makes a driver with its core and a store of its own.
std::shared_ptr<driver> make_driver(const lock_store& where, runtime::pool_setup its);
std::shared_ptr<driver> make_driver(const lock_store& where, runtime::mutex_set_setup its);

}  // namespace holdfast::detail

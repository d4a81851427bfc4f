// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/client.hpp>
#include <holdfast/election.hpp>
#include <holdfast/slot_source.hpp>
#include <memory>

#include "runtime/lock_account.hpp"

namespace holdfast::detail {

/// Finds what the handles of users stand for.
class statistics_access {
public:
  /// Null if the handle is empty.
  static std::shared_ptr<runtime::lock_account> account(const slot_source& lock);
  static std::shared_ptr<runtime::lock_account> account(const election& candidates);
  static std::weak_ptr<consul::detail::client_impl> client(const consul::client& of) { return of.impl_; }
};

}  // namespace holdfast::detail

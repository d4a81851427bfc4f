// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/client.hpp>
#include <holdfast/detail/export.hpp>
#include <memory>

namespace holdfast {

namespace runtime {

class store_factory;

}  // namespace runtime

/// The place where locks keep their sessions and keys, as an argument of their constructors. Observers, administration
/// and `verify` take it, too. A `consul::client` and a `local_store` (in `holdfast::testing`) convert to it implicitly.
///
/// Threads: const members may be called from any thread at any time.
///
/// Lifetimes: it is cheap to copy. It may be destroyed as soon as the locks are constructed.
class HOLDFAST_EXPORT lock_store {
public:
  // NOLINTNEXTLINE(google-explicit-constructor): a client is a complete store, and the conversion loses nothing.
  lock_store(consul::client client);

private:
  friend class runtime::store_factory;
  explicit lock_store(std::shared_ptr<const runtime::store_factory> factory) noexcept : factory_(std::move(factory)) {}

  std::shared_ptr<const runtime::store_factory> factory_;
};

}  // namespace holdfast

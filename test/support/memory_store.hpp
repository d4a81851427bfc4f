// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/testing/store.hpp>
#include <memory>

namespace holdfast::test {

/// A kind of store beside Consul's: the model of Consul, used without HTTP. Locks that are made with the same object
/// share its state. It shows what a kind of store must provide, and that the rest of the library does not know Consul.
///
/// Use it and `model` on the executor's thread only. After a change of `model` call `settle`, which notifies the locks.
class memory_store {
public:
  explicit memory_store(const boost::asio::any_io_executor& executor);

  // NOLINTNEXTLINE(google-explicit-constructor): a client converts to a `lock_store` implicitly, too.
  operator lock_store() const;
  testing::store& model() const;
  void settle() const;
  /// From now on every request is answered with error::closed. Call it on the executor's thread, and not from a handler
  /// of a store's answer.
  void close() const;

private:
  class shared;
  class one;
  class factory;
  std::shared_ptr<shared> shared_;
};

}  // namespace holdfast::test

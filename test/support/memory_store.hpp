// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/testing/store.hpp>
#include <mutex>

#include "local/local_context.hpp"

namespace holdfast::test {

/// A `local_store` whose model tests may change. Use `model` on the thread that runs the store's context only. After a
/// change of `model` call `settle`, which notifies the locks.
class memory_store : public local_store {
public:
  using local_store::local_store;

  testing::store& model() const { return context().state()->model; }
  void settle() const {
    context().change([](testing::store&) { return true; });
  }
  std::unique_lock<std::mutex> locked() const { return std::unique_lock(context().state()->mutex); }
  /// From now on every request is answered with error::closed.
  void close() const { context().close(); }

private:
  local::local_context& context() const { return *local::local_context::of(*this); }
};

}  // namespace holdfast::test

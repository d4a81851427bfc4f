#pragma once

#include <holdfast/consul/client.hpp>
#include <memory>

namespace holdfast {

namespace runtime {

class store_factory;

}  // namespace runtime

/// Where locks keep their sessions and keys, as their constructors take it. A `consul::client` becomes one by itself;
/// there is no other kind in this library.
///
/// Threads: const members are safe from any thread.
///
/// Lifetimes: cheap to copy; a lock has a copy of its own.
class lock_store {
public:
  // NOLINTNEXTLINE(google-explicit-constructor): whoever has a client has the store, and nothing is lost on the way.
  lock_store(consul::client client);
  /// Another kind: `src/runtime/store.hpp` says what it has to do.
  explicit lock_store(std::shared_ptr<const runtime::store_factory> factory) noexcept : factory_(std::move(factory)) {}

  const runtime::store_factory& factory() const noexcept { return *factory_; }

private:
  std::shared_ptr<const runtime::store_factory> factory_;
};

}  // namespace holdfast

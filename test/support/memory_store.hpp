#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/testing/store.hpp>
#include <memory>

namespace holdfast::test {

/// Another kind of store than Consul's: the model of Consul, asked without HTTP. Locks that are made with the same one
/// share it. It shows what a kind of store has to bring, and that nothing else in the library knows Consul.
///
/// Threads: one, the executor's; so is `model`, whose changes by hand `settle` makes known.
class memory_store {
public:
  explicit memory_store(const boost::asio::any_io_executor& executor);

  // NOLINTNEXTLINE(google-explicit-constructor): as a client is a `lock_store`, so is this.
  operator lock_store() const;
  testing::store& model() const;
  void settle() const;
  /// From now on everything is answered with error::closed. By the executor's thread, outside of its stores' answers.
  void close() const;

private:
  class shared;
  class one;
  class factory;
  std::shared_ptr<shared> shared_;
};

}  // namespace holdfast::test

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/make_driver.hpp"

#include <cstdint>
#include <random>
#include <utility>

#include "protocol/mutex_set/mutex_set.hpp"
#include "protocol/pool/pool.hpp"

namespace holdfast::detail {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

template <class Core, class Setup>
std::shared_ptr<driver> make_driver_of(const lock_store& where, Setup its) {
  std::unique_ptr<runtime::store> store = runtime::store_factory::of(where).open(std::move(its.store));
  its.core.store = store->name();
  auto made = lifetime::make_hooked<driver>(std::move(store), std::move(its.driver),
                                            std::make_unique<Core>(std::move(its.core), random_seed()));
  made->start();
  return made;
}

}  // namespace

std::shared_ptr<driver> make_driver(const lock_store& where, runtime::pool_setup its) {
  return make_driver_of<protocol::pool>(where, std::move(its));
}

std::shared_ptr<driver> make_driver(const lock_store& where, runtime::mutex_set_setup its) {
  return make_driver_of<protocol::mutex_set>(where, std::move(its));
}

}  // namespace holdfast::detail

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>

#include "lifetime/process_mark.hpp"

namespace holdfast::lifetime {

/// A global object, of which a child of fork() makes its own. The parent's must not be used there: another thread of
/// the parent may have held its lock at the moment of the fork. An object that was handed out is never destroyed.
template <class Object>
class per_process {
public:
  Object& operator*() {
    made* its = last_.load(std::memory_order_acquire);
    if (its && !its->process.is_foreign()) return its->object;
    auto* const fresh = new made();
    if (last_.compare_exchange_strong(its, fresh, std::memory_order_acq_rel)) return fresh->object;
    delete fresh;  // another thread of this process was faster
    return its->object;
  }
  Object* operator->() { return &**this; }

private:
  struct made {
    process_mark process{};
    Object object{};
  };
  std::atomic<made*> last_{nullptr};
};

}  // namespace holdfast::lifetime

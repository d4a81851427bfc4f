// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/mutex_policy.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

/// Each try is guarded by the index that the key had just before. So of two tries that were both applied, the one that
/// was sent later was applied later. A proclaim that is tried anew therefore moves to the end of the list.
///
/// A proclaim that is over is never withdrawn. After its end, its value counts instead of those of older tries, even if
/// the outcome of its write is unknown. So those are dropped. If one of their proclaims is still pending, it enters the
/// list again with its next try.
void mutex_policy::written(event::value_written& e) {
  using enum event::value_written::stage;
  const auto its =
      std::find_if(values_.begin(), values_.end(), [&](const proclaimed& each) { return each.proclaim == e.proclaim; });
  const bool is_listed = its != values_.end();
  switch (e.is) {
    case tried:
      if (is_listed) values_.erase(its);
      values_.push_back({e.proclaim, std::move(e.value)});
      break;
    case withdrawn:
      if (is_listed) values_.erase(its);
      break;
    case over:
      if (is_listed) values_.erase(values_.begin(), its);
      break;
  }
}

}  // namespace holdfast::protocol

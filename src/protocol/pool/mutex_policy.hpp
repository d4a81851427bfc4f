// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/pool/pool_options.hpp"

namespace holdfast::protocol {

/// The rules that apply only to a mutex, whose record is the mutex's key. After a release, the key keeps the value that
/// its last holder has left. Clients of other kinds have no entry, and must get the key now and then.
class mutex_policy {
public:
  /// Our holder writes a value into the key.
  void written(event::value_written& e);
  void granted_anew() { values_.clear(); }
  /// The value that the holder leaves in the key when it releases it. If there is none, it leaves its description.
  std::optional<std::string> value() const {
    return values_.empty() ? std::nullopt : std::optional(values_.back().text);
  }

  /// The record was seen. `is_free_or_foreign`: nobody holds it, or a client of another kind does.
  void saw(context& ctx, bool is_free_or_foreign) {
    if (is_free_or_foreign || free_at_ == time_point()) free_at_ = ctx.now();
  }
  /// The time from which a release must unlock the key without granting it to anybody, and only wake the head of
  /// the queue. Clients of other kinds wait without an entry, so we cannot see them. They get the key only if it is
  /// free for a moment. If there are more than `watch_all_max` contenders (`crowd`), each process sees few of the
  /// moments at which another one leaves the key free. So each waits for `crowd` intervals, and all of them together
  /// free it about once per interval. The result is `never` for a semaphore, and if `yield_interval` is 0.
  time_point yields_at(const pool_options& o, std::size_t crowd) const {
    if (o.form != record_form::session || o.yield_interval == duration::zero()) return never;
    const std::size_t share = crowd > o.watch_all_max ? crowd : 1;
    return free_at_ + static_cast<duration::rep>(share) * o.yield_interval;
  }

private:
  struct proclaimed {
    std::uint64_t proclaim;
    std::string text;
  };

  /// The values that our holder has written, or may have, in the order of their last tries. Only the first one can be
  /// of a proclaim that has ended, so the list is one longer than the number of proclaims that are pending, at most.
  std::vector<proclaimed> values_;
  /// When the key was last seen free, or held by another kind of client. If it never was, when it was first seen.
  time_point free_at_{};
};

}  // namespace holdfast::protocol

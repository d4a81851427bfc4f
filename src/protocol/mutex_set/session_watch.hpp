// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "protocol/core/context.hpp"
#include "protocol/core/contradictions.hpp"
#include "protocol/core/fallible.hpp"

namespace holdfast::protocol {

/// The blocking query for the key that Consul deletes when a session ends, and the failures of such queries. At most
/// one is pending.
class session_watch : public fallible {
public:
  /// From when on a query may be started. During the pause after a failure, that is its end. `never` if a query is
  /// pending.
  time_point due_at() const { return id_ == 0 ? std::max(failures().retry_at(), early_.retry_at()) : never; }
  /// Starts a query that waits for a change, for `longest` or a little less. It does not wait if no query has shown the
  /// key before, or if the last query has failed.
  void start(context& ctx, std::string key, duration longest);
  /// Returns true if `id` is the pending query. That query is answered then, so none is pending any more.
  bool take(request_id id);
  /// A query has shown that the key exists.
  void has_seen(context& ctx, contradiction_news& news, std::uint64_t index);
  /// Stops the pending query. The next one starts without a pause, and does not wait.
  void read_at_once(context& ctx);
  /// The session is not used any more.
  void drop(context& ctx);

private:
  void stop(context& ctx);

  request_id id_ = 0;  ///< the pending query, or 0
  std::uint64_t index_ = 0, asked_index_ = 0;
  time_point asked_at_{};
  duration wait_{};
  contradictions early_;
};

}  // namespace holdfast::protocol

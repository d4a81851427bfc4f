// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/record/snapshot.hpp"
#include "protocol/session/session.hpp"

namespace holdfast::protocol {

/// Sessions of other processes whose makers are gone. The shell has proof that the process that made the session no
/// longer exists, and neither does any process that inherited the session's file from it (`maker_watch`). So nobody
/// uses the slot of such a session. This process takes the session out of the record and the queue by one write, and
/// then destroys it, unless another process does so first.
///
/// Requests that the dead process had sent may still arrive. So a `lock_delay` that the user has set counts from the
/// proof on. Such a request may also bring the entry of the dead process back, until the session is destroyed.
class gone_makers {
public:
  /// The maker of `session` is gone. Its slot may be freed when `lock_delay` has passed.
  void add(context& ctx, std::string session, duration lock_delay, duration ttl);
  bool empty() const { return all_.empty(); }
  bool contain(const std::string& session) const { return all_.contains(session); }
  /// The file of this session has been removed, so another process has most likely done everything.
  void file_removed(const std::string& session);
  /// Returns true if such a contender can be removed only after a listing, and it is this process's turn to list. `now`
  /// is not current. If the record names the session, it takes somebody's slot, so this process lists when its turn
  /// comes. Otherwise the contender is in nobody's way yet. Then each process of the host waits for a longer random
  /// time, in which one of the others may do it.
  bool takes_turn_to_list(context& ctx, const snapshot& now, request_id as_of);
  /// The contenders of these sessions that a write may remove now.
  std::vector<const contender*> due(moment& at, const snapshot& now) const;
  /// Returns the sessions whose slots may be freed now.
  std::vector<std::string_view> free(moment& at) const;
  /// Returns true if it is this process's turn to write, or to list before it writes. Several processes of a host hear
  /// of the same death. A process whose own contender comes next writes at once. The others write after a short random
  /// time, in case that process does not.
  bool takes_turn(context& ctx);
  void nothing_due() { turn_at_ = never; }

  /// A write that removes these sessions is about to be sent.
  void tried(const std::vector<std::string>& removed);
  /// The view may have changed, and is `now`. A session that a write of ours has removed must end.
  void saw(const snapshot& now);
  /// Asks Consul to destroy the sessions that our writes have removed. Forgets sessions for which nothing is left to
  /// do. `now` is the view, and `is_current` tells whether it is current.
  void pursue_all(context& ctx, const snapshot& now, bool is_current);
  /// The answer to such a request. Returns false if the session is not one of these.
  bool destroyed(context& ctx, const event::session_destroyed& e);

private:
  struct gone {
    time_point free_at{};  ///< its slot may be freed from then on
    time_point read_at{};  ///< from then on, this process reads everything, even if the contender holds nothing
    request_id as_of = 0;  ///< the last request that was sent before the proof
    bool is_file_removed = false;
    bool is_tried = false;  ///< a write of ours may have removed it
    bool is_removed = false;
    ending_session end{};
  };
  static constexpr std::size_t gone_max = 10'000;

  std::map<std::string, gone, std::less<>> all_;
  time_point turn_at_ = never;
};

}  // namespace holdfast::protocol

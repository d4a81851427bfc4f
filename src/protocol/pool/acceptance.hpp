// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/core/fallible.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/pool_options.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// The times of an acceptance. A grant by another process is provisional if the grantee's entry says that its process
/// accepts grants, because the grantee may be dead. The grant becomes final when the grantee accepts it. If the grantee
/// does not accept it in time, another process may take the grant back and give the slot to another contender. All
/// times follow from the TTL that the grantee's entry states.
///
/// Let `t` be the time at which the grantee sent the last request whose answer showed its entry waiting. The grant is
/// later than `t`. If the grantee hears of the grant by `t + fresh`, it may use the slot at once, and without an
/// acceptance until `t + fresh + within` at the latest. If it hears of the grant later, it accepts first. Another
/// process that has seen the grant at `s` takes it back at `s + fresh + within + slack` at the earliest. `s` is later
/// than the grant. So the grantee does not use the slot any more. `slack` covers clocks that run at different speeds.
struct acceptance_times {
  duration fresh, within, slack;
  duration patience() const { return fresh + within + slack; }
};
/// The times for this TTL. If the TTL is too short, the result is empty, and each grant is final at once.
constexpr std::optional<acceptance_times> acceptance_of(duration ttl) {
  using std::chrono::milliseconds;
  if (ttl < milliseconds(2'000)) return std::nullopt;
  return acceptance_times{ttl / 15, std::max<duration>(ttl / 6, milliseconds(500)), ttl / 50};
}
/// Whether a pool with these options accepts grants. Its entries say so, unless they state no lease (`wall_offset`).
inline bool accepts_grants(const pool_options& o) { return o.accepts && acceptance_of(o.ttl); }
/// The times for the TTL that this entry states. The result is empty if the entry does not say that its process accepts
/// grants, or if the TTL is too short.
std::optional<acceptance_times> acceptance_of(const contender& entry);

/// The pending requests that accept grants. They may be pending beside a write. A request may be repeated, because
/// Consul applies it only while the entry has the index of the grant.
class acceptances : public fallible {
public:
  struct grant {
    member_id id;
    std::uint64_t index;
  };
  /// From when on another request may be sent. `never` if an answer must come first.
  time_point due_at() const { return sent_.size() < sent_max ? failures().retry_at() : never; }
  bool is_under_way(member_id id) const {
    return std::any_of(sent_.begin(), sent_.end(), [id](const auto& request) {
      return std::any_of(request.second.begin(), request.second.end(), [id](const grant& g) { return g.id == id; });
    });
  }
  void send(context& ctx, std::vector<grant> all, std::vector<kv_operation> operations) {
    const request_id id = ctx.new_request();
    sent_.emplace(id, std::move(all));
    ctx.act(action::send_txn{id, std::move(operations)});
  }
  /// Removes a pending request and returns its grants. The result is empty if there is no such request.
  std::optional<std::vector<grant>> done(request_id id) {
    const auto found = sent_.extract(id);
    if (!found) return std::nullopt;
    return std::move(found.mapped());
  }

private:
  static constexpr std::size_t sent_max = 4;

  std::map<request_id, std::vector<grant>> sent_;
};

/// Grants to other processes that are not accepted yet, with the times at which they may be taken back.
class open_grants {
public:
  /// Adds the open grants that the view shows, and removes those that it shows no more.
  void saw(context& ctx, const snapshot& now, const members& ours);
  /// Marks grants that this process has written. If a session of ours waits, this process takes them back first. Other
  /// processes wait a little longer, in case this process has died.
  void granted(const std::vector<std::string>& sessions);
  /// The grants that this process takes back now. `waits`: a session of ours waits in the queue.
  ///
  /// If the process that has written a grant has a waiter, it takes the grant back first. It gives the slot to that
  /// waiter, which certainly lives. If it has no waiter, it would have to grant the next contender in the queue, which
  /// may be dead, too. So it leaves the grant to other processes that wait, and acts only if they do not.
  std::vector<const contender*> overdue(moment& at, const snapshot& now, bool waits) const;
  /// Whether the last listing came before the end of the time that one of these grants had to be accepted. That grant
  /// may have been accepted since.
  bool is_unseen(const std::vector<const contender*>& overdue, time_point listed_at) const;

private:
  struct grant {
    std::uint64_t index = 0;
    time_point over_at{};
    duration slack{};
    duration later{};  ///< the random delay of a process that has not written the grant
    bool is_by_us = false;
    time_point due_at(bool waits) const {
      if (waits) return over_at + (is_by_us ? duration(0) : later);
      return is_by_us ? over_at + 3 * slack : never;
    }
  };
  std::map<std::string, grant, std::less<>> grants_;
};

/// Processes that did not accept a grant, so that this process took it back. They are probably dead, and their other
/// entries may stand in the queue for two TTLs. These entries are granted last. The entries of a process are known by
/// their description. The doubt ends when an entry shows that the process lives, or at the time `until`.
class doubtful_processes {
public:
  void took_back(std::string description, std::uint64_t index, time_point until) {
    doubts_.insert_or_assign(std::move(description), doubt{index, until});
  }
  void saw(time_point now, const snapshot& seen);
  /// The sessions of their entries, and of the other entries of processes whose grants are being taken back.
  std::vector<std::string> sessions(time_point now, const snapshot& seen,
                                    const std::vector<const contender*>& taken_back) const;

private:
  struct doubt {
    std::uint64_t index;  ///< of the write that took the grant back
    time_point until;
  };
  std::map<std::string, doubt, std::less<>> doubts_;
};

}  // namespace holdfast::protocol

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

#include "protocol/context.hpp"
#include "protocol/member.hpp"
#include "protocol/outage.hpp"
#include "protocol/pool_options.hpp"
#include "protocol/snapshot.hpp"

namespace holdfast::protocol {

/// A grant by another process is provisional: its process may be dead. It counts for good when the process has accepted
/// it. One that is not accepted in time may be taken back, and goes to the next. The times are those of the process
/// that is granted; they follow from the TTL that its entry states.
///
/// Let `t` be when that process sent the last request whose answer showed its entry waiting: no grant is older. If it
/// hears of the grant by `t + fresh`, it believes at once, and until `t + fresh + within` without an acceptance. If it
/// hears later, it accepts first. Another process that has seen the grant at `s` takes it back after
/// `s + fresh + within + slack` at the earliest. `s` is later than the grant, and the grant is later than `t`. So
/// nobody believes any more. `slack` is for clocks that run at different speeds.
struct acceptance_times {
  duration fresh, within, slack;
  duration patience() const { return fresh + within + slack; }
};
/// None if the sessions are too short for that: then each grant counts at once.
constexpr std::optional<acceptance_times> acceptance_of(duration ttl) {
  using std::chrono::milliseconds;
  if (ttl < milliseconds(2'000)) return std::nullopt;
  return acceptance_times{ttl / 15, std::max<duration>(ttl / 6, milliseconds(500)), ttl / 50};
}
/// Whether the entries of a pool with these options say so. A mutex and numbered slots have no acceptance yet.
inline bool accepts_grants(const pool_options& o) {
  return o.accepts && o.form == record_form::map && !o.numbered && acceptance_of(o.ttl);
}
/// The same of an entry, by its own words. None if it accepts nothing.
std::optional<acceptance_times> acceptance_of(const contender& entry);

/// The acceptances that are under way, beside the write. Each may be repeated: Consul applies it only while the entry
/// has the index of the grant.
class acceptances {
public:
  struct grant {
    member_id id;
    std::uint64_t index;
  };
  outage failures{};

  /// Whether another request may be sent now.
  bool may_send(context& ctx) const { return sent_.size() < sent_max && ctx.due_or_wake(failures.retry_at()); }
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
  /// None if it is not one of those that were sent.
  std::optional<std::vector<grant>> done(request_id id) {
    const auto found = sent_.extract(id);
    if (!found) return std::nullopt;
    return std::move(found.mapped());
  }

private:
  static constexpr std::size_t sent_max = 4;

  std::map<request_id, std::vector<grant>> sent_;
};

/// Grants to other processes that those have not accepted, and since when this process knows of them.
class open_grants {
public:
  /// Takes up those that the view shows, and forgets those that it does not show any more.
  void saw(context& ctx, const snapshot& now, const members& ours);
  /// These grants were written by this process. It looks after them; the others do so only if it does not.
  void granted(const std::vector<std::string>& sessions);
  /// Those whose time is over; it asks to be woken when the next one's is. `waits`: a session of ours is in the queue.
  /// Only then does this process look after grants that others have written.
  std::vector<const contender*> overdue(context& ctx, const snapshot& now, bool waits) const;
  /// Whether one of these was not seen after its time: it may have been accepted since.
  bool is_unseen(const std::vector<const contender*>& overdue, time_point listed_at) const;

private:
  struct grant {
    std::uint64_t index = 0;
    time_point over_at{};
    duration later{};  ///< by chance, where another process should take it back
    bool is_by_us = false;
  };
  std::map<std::string, grant, std::less<>> grants_;
};

}  // namespace holdfast::protocol

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/actions.hpp"
#include "protocol/events.hpp"
#include "protocol/lease.hpp"
#include "protocol/outage.hpp"
#include "protocol/random.hpp"

namespace holdfast::protocol {

/// A machine that the shell hosts: events in, actions out; the same events give the same actions. It has what all of
/// them need: the time, the leases of their sessions, and the end of those.
class core {
public:
  virtual ~core() = default;

  /// Takes the event and appends what must be done, in order. `now` never goes backwards.
  virtual void step(pool_event&& e, time_point now, pool_actions& out) = 0;
  /// When a `tick` is due, at the latest.
  time_point wake() const { return wake_; }
  time_point now() const { return now_; }

  /// Whether an acquire that sets no deadline only queues now, so that the time does not matter to it.
  virtual bool only_queues() const = 0;
  /// How many slots there are: as configured, or as the record says, where that is adopted and one was seen.
  virtual std::uint32_t limit() const = 0;
  virtual std::size_t waiting() const = 0;
  virtual std::size_t sessions() const = 0;

  /// Where Consul notes that one slot is ours: this key is locked by this session, and was last written by the grant.
  struct entry {
    std::string key;
    std::string session;
    std::uint64_t grant = 0;
  };
  /// One for each that the slot counts; none if it is not in use.
  virtual std::vector<entry> entries_of(slot_id id) = 0;
  /// The key that the holder of a mutex has locked.
  virtual std::string lock_key(slot_id id) = 0;

protected:
  explicit core(std::uint64_t seed) : random_(seed) {}
  core(const core&) = default;
  core& operator=(const core&) = default;

  /// One session of ours.
  struct own_session {
    member_id id{};
    std::string session{};
    protocol::lease lease{};
    time_point asked_at{};  ///< when the latest create or renew request was handed out to be sent
    failure not_renewed{};  ///< what the last renewal failed with, if it did
    bool awaits_node = false;
    bool had_node = false;  ///< registered for it, once
  };
  void create(own_session& s);
  void created(own_session& s, std::string session, protocol::lease fresh);
  /// It could not be created because its node is not in Consul's catalog. True: that is registered now, and then the
  /// session is created once more, by `create_again`.
  bool registers_node(own_session& s, const failure& why, std::string_view node);
  void create_again(own_session& s);
  /// Adds to a refusal what the token has to allow.
  static failure with_rules(failure why, std::string_view node);
  void renew_when_due(own_session& s);
  /// False: Consul says that it is gone, which a leader that has not caught up yet may say of a live session: a
  /// consistent look, or the lease, decides. A reply that came too late changes nothing: lost is final.
  bool renewed(own_session& s, event::session_renewed& e);
  /// Why its lease has run out.
  failure why_expired(const own_session& s) const;

  /// A session that must end, whatever becomes of the requests that named it: a destroyed session makes them harmless.
  struct ending_session {
    time_point until{};  ///< by then Consul has ended it without us
    outage attempts{};
    bool asking = false;
  };
  /// False: it is over by itself.
  bool pursue(ending_session& s, const std::string& session);
  void not_destroyed(ending_session& s);

  void begin_step(time_point now, pool_actions& out) {
    now_ = std::max(now_, now);
    out_ = &out;
  }
  void end_step() { out_ = nullptr; }
  template <class Action>
  void act(Action a) {
    out_->emplace_back(std::move(a));
  }
  /// Whether an answer that was due `when` has not come. If this process was away, it may lie here unread, or the
  /// request has just been sent: so it gets a moment more.
  bool is_overdue(time_point when, duration moment) {
    if (!due(when)) {
      overdue_since_ = never;
      return false;
    }
    overdue_since_ = std::min(overdue_since_, now_);
    return due(overdue_since_ + moment);
  }
  void wake_at(time_point when) { wake_ = std::min(wake_, when); }
  bool due(time_point when) {
    if (when <= now_) return true;
    wake_at(when);
    return false;
  }

  random_source random_;
  time_point now_{};
  time_point wake_ = never;
  pool_actions* out_ = nullptr;
  std::uint64_t last_member_ = 0;
  request_id last_request_ = 0;
  bool registering_ = false;  ///< the node
  time_point overdue_since_ = never;
};

}  // namespace holdfast::protocol

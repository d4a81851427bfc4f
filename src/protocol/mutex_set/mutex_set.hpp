// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/core/closing.hpp"
#include "protocol/core/contradictions.hpp"
#include "protocol/core/core.hpp"
#include "protocol/core/core_options.hpp"
#include "protocol/core/liveness.hpp"
#include "protocol/core/overdue_answer.hpp"
#include "protocol/mutex_set/batch_in_flight.hpp"
#include "protocol/mutex_set/lock_names.hpp"
#include "protocol/mutex_set/session_watch.hpp"
#include "protocol/mutex_set/set_keys.hpp"
#include "protocol/session/session_keeper.hpp"

namespace holdfast::protocol {

/// `holdfast::mutex_set_options` documents these options.
using mutex_set_options = core_options;

/// The core of a mutex set: the locks of one process below a prefix. One session holds any number of them. Each
/// `acquire` tries once to lock one name.
///
/// One transaction is pending at a time. All that callers request meanwhile goes together into the next one, as far as
/// it fits. But if a batch was refused, the next batch repeats its locks without newcomers.
///
/// A session begins with an *opening*. It creates the *sequence guard*, a key that nobody else writes. If an opening is
/// refused, another opening follows. After the first opening that is applied, each transaction, except a read of the
/// guard, begins with a compare-and-set of the guard. So it is applied at most once, and never after a later one.
///
/// If the outcome of a transaction is unknown, the set sends an empty transaction, the *barrier*. If the barrier is
/// applied, the other transaction was not applied and never will be. If the barrier is refused because the guard has
/// changed, the set reads the guard. The guard shows which of the two was applied, or that a late copy was (see below).
/// If the outcome of an opening is unknown, there may be no guard yet. Then the set goes on with another session.
///
/// A transaction that Consul refused has not written the guard. If the network makes a copy of it, Consul may apply the
/// copy when the names are free. No user here holds the locks that such a copy takes, so the set must find and unlock
/// them. Therefore, if any transaction was refused since the guard was last written, an empty transaction follows the
/// next renewal of the session.
///
/// The set watches a second key, which is written once. Consul deletes that key and all locks when the session ends.
class mutex_set final : public core {
public:
  mutex_set(mutex_set_options options, std::uint64_t seed);

  void step(core_event&& e, time_point now, core_actions& out) override;

  core_status status() const override { return {names_.asking(), sessions_.size(), 1}; }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id id) override;

private:
  using sessions = session_keeper<own_session, ending_session>;

  // mutex_set.cpp: events (but `txn_done` is in mutex_set_write.cpp), and what is due at a certain time
  void on(event::acquire& e);
  void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::tick&) {}
  void on(event::alive& e) { application_.answered(e.is_yes, ctx_.now()); }
  void on(event::session_created& e);
  void on(event::node_registered& e);
  void on(event::session_renewed& e);
  void on(event::session_destroyed& e);
  void on(event::txn_done& e);
  void on(event::key_watched& e);
  void advance();
  void advance_once();
  void check_lease();
  void check_watch();
  void check_outage();
  void retire_sessions();
  void finish_close();
  void drop_session(loss_reason reason, failure why = {});
  void has_ended(sessions::ending_map::iterator at);
  void report();

  // mutex_set_write.cpp
  void write();
  void carry_out(const batch_answer& a);

  /// The session in use, or null.
  own_session* session() { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  // There must be a session in use.
  own_session& own() { return sessions_.begin()->second; }
  set_keys keys() { return {options_, own().session}; }
  /// If the watch fails, Consul is not asked for locks after this time, because they would be lost at once.
  time_point serves_until() const { return watch_.failures().lasts_until(options_.outage_grace); }
  failure failed(error_code code, std::string text) const { return set_keys::failed(options_, code, std::move(text)); }

  const mutex_set_options options_;

  lock_names names_;
  sessions sessions_;  ///< at most one is in use
  batch_in_flight batch_;
  session_watch watch_;
  outage lost_by_watch_;  ///< sessions were lost because their watches had failed; no watch has succeeded since
  contradiction_news news_;
  liveness application_;
  contradictions contradictions_;  ///< a new session's key was missing
  overdue_answer overdue_;
  closing closing_;
};

}  // namespace holdfast::protocol

// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/core/core.hpp"
#include "protocol/core/sign_of_life.hpp"
#include "protocol/pool/cluster_observer.hpp"
#include "protocol/pool/facts.hpp"
#include "protocol/pool/outage_rule.hpp"
#include "protocol/pool/own_grants.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/session_care.hpp"
#include "protocol/pool/taking.hpp"
#include "protocol/pool/wait_limit.hpp"
#include "protocol/pool/wanted_watches.hpp"
#include "protocol/pool/writer.hpp"

namespace holdfast::protocol {

/// The core of a semaphore, a mutex or a candidate of an election in one process: the local queue, the sessions that
/// contend for slots in the cluster, and every decision about them. At most one write and one plain read are pending at
/// a time. Besides these, a few watches, a few requests that accept grants, and one request to register the node may be
/// pending. For each session, at most one request each to create, to renew and to destroy it may be pending.
///
/// The flow of a slot:
/// 1. An acquire enters the local queue.
/// 2. Sessions are created (`member`).
/// 3. The sessions join the cluster's queue, or take a free slot in one write.
/// 4. The record names the sessions.
/// 5. The slot is handed to the front of the local queue.
/// 6. A release hands the slot on locally, or a write moves it on to a contender that waits elsewhere (`plan`).
///
/// The pool routes events to its parts. In `advance` it asks each part in turn what has to be done. A pool is a value:
/// a copy continues from the same state.
class pool final : public core {
public:
  pool(pool_options options, std::uint64_t seed);

  void step(core_event&& e, time_point now, core_actions& out) override;

  core_status status() const override {
    const core_trust trust{parts_.read_back.count(), parts_.read_back.found_at(), parts_.turns.until()};
    return {parts_.waiters.size(), parts_.members.size(), limit(), trust};
  }
  std::optional<queue_state> queue(std::size_t holders_max) const override;
  std::uint32_t limit() const { return parts_.situation.limit; }
  std::optional<failure> why_unavailable() const override { return outage_rule::why_unavailable(parts_); }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id) override { return parts_.options.lock_key; }

private:
  using slot = slot_ledger::slot;

  // pool.cpp: events
  void on(event::acquire& e);
  [[gnu::cold]] void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::session_created& e);
  void on(event::session_renewed& e);
  void on(event::session_destroyed& e);
  void on(event::txn_done& e);
  void on(event::prefix_listed& e);
  void on(event::key_watched& e);
  void on(event::node_seen& e);
  void on(event::value_written& e) { parts_.mutex.written(e); }
  void on(event::node_registered& e);
  void on(event::maker_gone& e) { taking_.on(ctx_, e, parts_); }
  void on(event::maker_file_removed& e) { taking_.on(e); }
  void on(event::tick&) {}
  void on(event::alive& e) { parts_.application.answered(e.is_yes, now()); }

  // pool_local.cpp: the order in which the machines act, the local queue, and the close
  void advance();
  void advance_once();
  void join(event::acquire& e);
  bool serve_only();
  bool would_do_nothing();
  /// While watches fail, slots are granted until this time, because after it they would be lost at once.
  time_point serves_until() const { return parts_.watches.failures().lasts_until(parts_.options.outage_grace); }
  void serve();
  void finish_close();

  queue_state::holder as_holder(const contender& entry) const;

  void saw_lock_key(std::uint64_t created, request_id asked);
  cluster_observer observe() { return {ctx_, parts_, waits_, own_grants_, taking_}; }
  facts facts_now() const { return {parts_, now()}; }
  [[gnu::cold]] failure failed(error_code code, std::string text) const { return parts_.failed(code, std::move(text)); }

  pool_parts parts_;
  std::vector<member*> usable_;  ///< filled by `serve`; a field so that its memory is reused
  protocol::writer writer_;
  protocol::own_grants own_grants_;
  protocol::taking taking_;
  session_care care_;
  wait_limit waits_;
  protocol::outage_rule outage_rule_;
  sign_of_life life_;
  bool was_asked_ = false;  ///< there was an acquire
  /// The result of the last `advance`. It tells whether another `advance` is needed after a local event.
  struct {
    /// There was no closing, suspicion, loss, doubt or outage, no due acceptance was left unsent, and no pause between
    /// watches of everything was running. Nor were makers watched for somebody who waited. So a local event concerns
    /// only the queue.
    bool calm = false;
    bool blind = false;  ///< no contender was known to wait elsewhere, and no watch of everything would have shown one
  } last_;
};

}  // namespace holdfast::protocol

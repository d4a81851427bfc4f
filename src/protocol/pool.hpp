#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/acceptance.hpp"
#include "protocol/closing.hpp"
#include "protocol/compose.hpp"
#include "protocol/core.hpp"
#include "protocol/decide.hpp"
#include "protocol/facts.hpp"
#include "protocol/grant_duty.hpp"
#include "protocol/number_allocator.hpp"
#include "protocol/other_holders.hpp"
#include "protocol/read_in_flight.hpp"
#include "protocol/wait_limit.hpp"
#include "protocol/waiter_queue.hpp"
#include "protocol/wanted_watches.hpp"
#include "protocol/write_in_flight.hpp"

namespace holdfast::protocol {

/// One process's share of a semaphore: the local queue, the sessions that contend for it in the cluster, and every
/// decision about them. One transaction and one read are under way at a time, a few watches beside them, and one
/// renewal for each session.
///
/// The flow of a slot: an acquire queues -> sessions are created (`member`s) -> they join the cluster's queue, or take
/// a free slot in one write -> the record names them -> the slot is handed to the front of the local queue -> a release
/// hands it on locally, or `plan`s a write that gives it to whoever waits in the cluster.
///
/// It routes events to its parts, and in `advance` asks each in turn what is to be done. A pool is a value: its copy
/// goes on from the same state.
class pool final : public core {
public:
  pool(pool_options options, std::uint64_t seed);

  void step(core_event&& e, time_point now, core_actions& out) override;

  core_status status() const override { return {waiters_.size(), members_.size(), limit()}; }
  std::uint32_t limit() const { return situation_.limit; }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id) override { return options_.lock_key; }

private:
  using slot = slot_ledger::slot;

  // pool.cpp: events
  void on(event::acquire& e);
  void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::session_created& e);
  void on(event::session_renewed& e);
  void on(event::session_destroyed& e);
  void on(event::txn_done& e);
  void on(event::prefix_listed& e);
  void on(event::key_watched& e);
  void on(event::node_seen& e);
  void on(event::value_written& e) { mutex_.written(e); }
  void on(event::node_registered& e);
  void on(event::tick&) {}

  // pool_local.cpp: time, leases, slots and the local queue
  void advance();
  bool serve_only();
  bool would_do_nothing();
  void expire_waiters();
  void check_leases();
  time_point queued_until() const;
  time_point shown_until(const member& m) const;
  void note_sat_out();
  void check_outage();
  time_point first_unanswered() const;
  duration giving_back_max() const;
  bool is_stuck(const member& m);
  bool serving() { return !watches_.failures.on() || !due_or_wake(watches_.failures.since() + options_.outage_grace); }
  void serve();
  bool all_in_use();
  /// Its user is told. The sessions stay until the user lets go.
  void lose(slot_id id, loss_reason reason, failure why = {});
  void lose_all(loss_reason reason, const failure& why = {});
  void report(const member& m);
  /// The session ends now. If it stands for a slot, the slot is lost for this reason.
  void end(member& m, loss_reason reason, failure why = {});
  /// The same, for a session that may have ended by itself, with its node.
  void drop(member& m, loss_reason reason, failure why = {});
  bool is_idle_for_too_long(const member& m);
  bool may_retire(member& m);
  void retire_sessions();
  void finish_close();
  void fail_waiters(const failure& why);
  bool fail_too_wide();

  // pool_watch.cpp: what we want to hear of, and what we hear
  void check_watches();
  void saw_record(std::optional<kv_entry> pair);
  void saw_entry(const watch& asked, std::optional<kv_entry> pair, duration wait);
  void saw_grant(const kv_entry& pair);
  void saw_number(const watch& asked, std::optional<kv_entry> pair);
  /// These log one line when watching stops to work, and one when it works again.
  void on_watch_failed(const watch& asked, failure why);
  void watches_work();

  // pool_cluster.cpp: what the cluster says, and what it means for us
  void take_listing(boost::system::result<snapshot> listing, request_id id, time_point asked_at);
  bool may_be_filtered(const snapshot& seen) const;
  void saw_own_join(const transaction& txn, snapshot seen);
  void refuse_listing(const error_code& why);
  void refresh();
  void refresh(member& m);
  void refresh_returned(member& m);
  void check_revoked();
  void node_may_be_gone(const member& ours);
  void applied(transaction txn, std::vector<kv_entry> results);
  void refused(transaction txn, const std::vector<event::refused_operation>& refusals);
  bool return_slots(transaction& refused, bool wakes);
  void slots_returned(transaction txn, std::uint64_t index);
  void resolve();
  void resolve_by_record(std::uint64_t index);
  void end_moves(const transaction& txn, bool maybe_applied);
  void saw_entries(const snapshot& listing, time_point asked_at);
  void was_granted(member& m, const contender& entry);
  void accept_grants();
  void check_acceptance(member& m);
  void accepted(const std::vector<acceptances::grant>& grants, event::txn_done& e);

  // pool_write.cpp: what we write
  void write();
  bool must_read_before_writing();
  void write_from_view();
  bool is_turn_to_read();
  void hand_on(const moves& what);
  demand wanted(const std::function<std::uint32_t()>& count_takeable, bool awaits_node);
  moves carry_out(decision d);
  void choose_numbers(moves& what);
  std::vector<const contender*> overdue() { return open_grants_.overdue(ctx_, view_.now(), any_waits(members_)); }
  plan_rules rules(const moves& what);
  void create_sessions(std::size_t count);
  void read_prefix() { read_.everything(ctx_, keys_.prefix); }
  void read_record() { read_.key(ctx_, keys_.lock); }
  bool read_node();
  void send(const moves& what, const grant_plan& next, bool writes_record);

  facts facts_now() {
    return {options_, keys_,  view_, situation_,      members_, slots_,
            claims_,  mutex_, now(), waiters_.size(), wide(),   closing_.has_begun()};
  }
  auto snapshot_of(std::vector<kv_entry> listing, std::uint64_t index) const {
    return make_snapshot(keys_.entries, keys_.lock, std::move(listing), index, options_.form);
  }
  bool wide() { return !waiters_.empty() && waiters_.front().count > 1; }
  void assess_limit() { situation_.assess_limit(view_, members_, options_); }
  failure too_many(std::uint32_t count) const;
  failure failed(error_code code, std::string text) const;

  pool_options options_;
  key_names keys_;

  waiter_queue waiters_;
  members members_;
  slot_ledger slots_;
  std::vector<member*> usable_;  ///< a list that `serve` makes; its memory is kept
  view view_;
  situation situation_;
  claim_timeouts claims_;
  other_holders others_;
  mutex_policy mutex_;
  grant_duty duty_;
  number_allocator numbers_;
  acceptances accepting_;
  open_grants open_grants_;
  doubtful_processes doubtful_;
  write_in_flight write_;
  read_in_flight read_;
  std::string node_asked_;  ///< which node the read under way is of, if it is of one
  watch_set watches_;
  wait_limit waits_;
  closing closing_;
  std::optional<outage> sat_out_;  ///< the outage through which a place in the queue was kept
  bool was_asked_ = false;         ///< for a slot, ever
  bool returns_soon_ = false;      ///< the last slot that a user gave back was wanted again at once
  /// When it last advanced: what tells whether all of that must be done again after a local event.
  struct {
    bool calm = false;     ///< there was nothing that a local event could have changed
    bool blind = false;    ///< no contender was known to wait elsewhere, and no watch would have told of one
    bool suspect = false;  ///< a member was
    bool lost = false;     ///< a member was
    bool open = false;     ///< an acceptance is due, and could not be sent yet
  } last_;
};

}  // namespace holdfast::protocol

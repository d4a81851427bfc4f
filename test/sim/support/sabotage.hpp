// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/testing/store.hpp>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/administration/administration.hpp"
#include "protocol/core/actions.hpp"
#include "protocol/core/events.hpp"
#include "protocol/election/election.hpp"
#include "protocol/mutex_set/mutex_set.hpp"
#include "protocol/pool/pool.hpp"
#include "protocol/record/lock_record.hpp"
#include "sim/support/world_options.hpp"
#include "support/guarantee.hpp"

namespace holdfast::test {

/// A bug that is planted on purpose, to show that the checkers find it. Most of them are wrong variants of the core:
/// `sabotage` changes the options of a correct core, what goes into it or what comes out of it. The others break a rule
/// of Consul on which the core relies, or a part of the world around the core.
enum class seeded_bug {
  none,
  lease_counted_late,
  clock_stops_in_pauses,
  timers_stop_in_suspends,
  clock_drift_ignored,
  renewal_failures_ignored,
  unknown_taken_for_refused,
  failures_never_arrive,
  timers_never_fire,
  no_prune,
  prune_from_stale_read,
  one_slot_too_many,
  unguarded_record,
  drops_another_holder,
  session_used_twice,
  grant_leaves_the_entry,
  release_keeps_the_entry,
  release_forgotten,
  sessions_stay,
  grant_dropped_after_cancel,
  answered_twice,
  overtaking,
  queue_by_session,
  succession_with_a_gap,
  token_reused,
  loss_not_told,
  watch_misses_deletions,
  watch_never_answers,
  no_watch_of_the_head,
  no_watch_of_the_entry,
  no_watch_of_the_record,
  index_kept_after_reset,
  looks_without_waiting,
  closed_ignored,
  closed_dropped,
  shrink_ignored,
  revoke_lost,
  order_unguarded,
  shrink_takes_slots,
  key_not_handed_over,
  key_not_let_go,
  request_bytes_not_counted,
  no_lock_delay,
  paused_taken_for_gone,
  number_not_locked,
  number_not_given_back,
  number_of_another,
  guard_any_grant,
  proclaim_without_index,
  proclaim_of_the_deposed,
  proclaimed_value_forgotten,
  observer_tells_once,
  observer_asks_from_now,
  observer_keeps_its_index,
  observer_hears_of_the_past,
  set_lease_counted_late,
  set_guard_ignored,
  set_unknown_taken_for_not_sent,
  set_barrier_forgotten,
  set_release_unchecked,
  set_wrong_one_denied,
  set_lock_kept_after_cancel,
  set_session_stays,
  set_loss_not_told,
  set_end_not_watched,
  set_token_reused,
};

/// The guarantees that a bug breaks directly, and not through other failures that follow from it. Most bugs break one.
/// Where a bug breaks several, a comment in the list usually says why.
class broken_guarantees {
public:
  template <class... Guarantees>
  constexpr broken_guarantees(Guarantees... all) : mask_((bit(all) | ...)) {}
  bool contain(guarantee any) const { return (mask_ & bit(any)) != 0; }

private:
  static constexpr unsigned bit(guarantee g) { return 1u << static_cast<unsigned>(g); }
  unsigned mask_;
};

struct seeded_bug_info {
  seeded_bug bug;
  std::string_view name;
  std::string_view what;
  broken_guarantees breaks;
  world_kind in = worlds_of_a_semaphore;
  bool rare = false;  ///< finding it takes more than half a million steps, so only the long run searches for it
};
inline constexpr seeded_bug_info seeded_bugs[] = {
    // Two guarantees: a process that believes for too long holds the slot at the same time as the next holder.
    {seeded_bug::lease_counted_late, "lease_counted_late", "the lease runs from when the reply came",
     broken_guarantees(guarantee::backing, guarantee::limit)},
    // Two guarantees: a lease that ended during the pause counts again, and so does its old token.
    {seeded_bug::clock_stops_in_pauses, "clock_stops_in_pauses", "the lease's clock does not count suspended time",
     broken_guarantees(guarantee::backing, guarantee::tokens)},
    {seeded_bug::timers_stop_in_suspends, "timers_stop_in_suspends", "a timer is not looked at before its time",
     guarantee::losses},
    // Two guarantees: when the session has ended, another process may get the slot while this one still believes in it.
    {seeded_bug::clock_drift_ignored, "clock_drift_ignored", "the lease has no margin for clocks that go wrong",
     broken_guarantees(guarantee::backing, guarantee::limit)},
    {seeded_bug::renewal_failures_ignored, "renewal_failures_ignored", "a renewal that failed extends the lease",
     guarantee::backing, worlds_of_a_semaphore, true},
    // Two guarantees: if the write was applied, the slot that it has released may be used again with its old token.
    {seeded_bug::unknown_taken_for_refused, "unknown_taken_for_refused",
     "a write of unknown outcome is taken for refused, its session used again",
     broken_guarantees(guarantee::backing, guarantee::tokens)},
    {seeded_bug::failures_never_arrive, "failures_never_arrive", "a request that fails is waited for without end",
     broken_guarantees(guarantee::progress, guarantee::answers)},
    // Two guarantees: a process that is never woken does not answer its users, and does not grant a free slot either.
    {seeded_bug::timers_never_fire, "timers_never_fire", "nobody wakes the pool when it asked for it",
     broken_guarantees(guarantee::progress, guarantee::answers)},
    {seeded_bug::no_prune, "no_prune", "the dead stay in the record", guarantee::progress},
    {seeded_bug::prune_from_stale_read, "prune_from_stale_read", "an old listing is taken for a new one",
     broken_guarantees(guarantee::backing, guarantee::losses)},
    {seeded_bug::one_slot_too_many, "one_slot_too_many", "one slot more than the limit is given out",
     guarantee::record},
    // Three guarantees: a write drops a holder without having seen it. The holder still believes in a slot, which the
    // next one may hold, too. Or its entry stays, and a guard accepts it.
    {seeded_bug::unguarded_record, "unguarded_record", "the record is written without looking at its index",
     broken_guarantees(guarantee::backing, guarantee::guards, guarantee::limit)},
    {seeded_bug::drops_another_holder, "drops_another_holder", "a release takes another holder out of the record, too",
     guarantee::backing},
    {seeded_bug::session_used_twice, "session_used_twice", "two slots stand on one session", guarantee::backing},
    // Three guarantees. A contender that has left and come back stands at the end of the queue, and is granted too
    // early. The token is the index of the entry, which the grant does not change. A process that accepts grants uses a
    // slot only when its entry shows the grant, so it waits for ever.
    {seeded_bug::grant_leaves_the_entry, "grant_leaves_the_entry",
     "the record names the grantee, whose entry is neither looked at nor touched",
     broken_guarantees(guarantee::order, guarantee::tokens, guarantee::progress)},
    {seeded_bug::release_keeps_the_entry, "release_keeps_the_entry", "the record is written, the entry stays",
     guarantee::guards},
    {seeded_bug::release_forgotten, "release_forgotten", "a release gets lost inside the process", guarantee::answers},
    {seeded_bug::sessions_stay, "sessions_stay", "what is dropped is not destroyed", guarantee::leaks},
    // Two guarantees: nobody uses the slot. Either a contender waits for it, or it is left at the end.
    {seeded_bug::grant_dropped_after_cancel, "grant_dropped_after_cancel",
     "a grant that crosses the user's cancellation is not given back",
     broken_guarantees(guarantee::progress, guarantee::leaks)},
    {seeded_bug::answered_twice, "answered_twice", "a release is answered twice", guarantee::answers},
    {seeded_bug::overtaking, "overtaking", "a later waiter is granted what an earlier one should have had",
     guarantee::order},
    {seeded_bug::queue_by_session, "queue_by_session", "the queue is in the order of names, not of arrival",
     guarantee::order},
    {seeded_bug::succession_with_a_gap, "succession_with_a_gap",
     "a grant does not name who comes first of those who wait", guarantee::order},
    {seeded_bug::token_reused, "token_reused", "local handoffs do not count in the fencing token", guarantee::tokens},
    // Four guarantees: a holder that is not told believes in its slot and its number until the lease is over.
    {seeded_bug::loss_not_told, "loss_not_told", "a holder is not told that its slot is gone",
     broken_guarantees(guarantee::losses, guarantee::backing, guarantee::limit, guarantee::numbers)},
    {seeded_bug::watch_misses_deletions, "watch_misses_deletions", "a contender that leaves or dies wakes nobody",
     guarantee::progress},
    {seeded_bug::watch_never_answers, "watch_never_answers", "no watch tells anything", guarantee::progress},
    {seeded_bug::no_watch_of_the_head, "no_watch_of_the_head", "nobody watches the queue as a whole",
     guarantee::progress},
    {seeded_bug::no_watch_of_the_entry, "no_watch_of_the_entry", "who waits does not watch its own entry",
     guarantee::progress},
    // Two guarantees: the watch reports the loss of a slot, and also its revocation by an operator.
    {seeded_bug::no_watch_of_the_record, "no_watch_of_the_record", "a holder does not watch the record",
     broken_guarantees(guarantee::losses, guarantee::orders)},
    {seeded_bug::index_kept_after_reset, "index_kept_after_reset", "a watch's index never goes back",
     guarantee::progress, worlds_of_a_semaphore, true},
    {seeded_bug::looks_without_waiting, "looks_without_waiting", "what should wait for news reads again and again",
     guarantee::cost},
    {seeded_bug::closed_ignored, "closed_ignored", "slots are granted while the record is closed", guarantee::orders},
    {seeded_bug::closed_dropped, "closed_dropped", "a write of the record opens it", guarantee::orders},
    {seeded_bug::shrink_ignored, "shrink_ignored", "a lower limit is not taken over", guarantee::record},
    {seeded_bug::revoke_lost, "revoke_lost", "nobody is told that an operator wants its slot", guarantee::orders},
    {seeded_bug::order_unguarded, "order_unguarded",
     "an order is written over what has happened since the operator looked",
     broken_guarantees(guarantee::record, guarantee::backing, guarantee::order, guarantee::orders)},
    // Two guarantees: a guard accepts the entry, which stays. If a process believes in the slot, it is not backed.
    {seeded_bug::shrink_takes_slots, "shrink_takes_slots", "a lower limit takes slots away from those who hold",
     broken_guarantees(guarantee::guards, guarantee::backing)},
    {seeded_bug::key_not_handed_over, "key_not_handed_over",
     "a grant touches the entry, and does not lock the key for it", guarantee::backing, worlds_of_a_mutex},
    // Two guarantees: the session that the key names has no entry any more. So it backs nobody, and it is left.
    {seeded_bug::key_not_let_go, "key_not_let_go", "a release leaves the key locked",
     broken_guarantees(guarantee::backing, guarantee::leaks), worlds_of_a_mutex},
    {seeded_bug::request_bytes_not_counted, "request_bytes_not_counted",
     "a write grants as many as wait, however long the request becomes", guarantee::cost},
    // Three guarantees: the next holder gets the key while the previous one still believes in it. A lock that is
    // reported late has the older token.
    {seeded_bug::no_lock_delay, "no_lock_delay", "Consul gives a key away as soon as its session has ended",
     broken_guarantees(guarantee::limit, guarantee::backing, guarantee::tokens), worlds_of_a_set},
    // Four guarantees: the paused process goes on and believes in its slot, which another process may hold, too. It may
    // then act on an entry that has gone.
    {seeded_bug::paused_taken_for_gone, "paused_taken_for_gone", "the maker of a session counts as gone while it lives",
     broken_guarantees(guarantee::backing, guarantee::limit, guarantee::losses, guarantee::numbers)},
    {seeded_bug::number_not_locked, "number_not_locked", "a slot is used without having locked its number",
     guarantee::numbers},
    {seeded_bug::number_not_given_back, "number_not_given_back", "a release leaves its number locked",
     broken_guarantees(guarantee::progress, guarantee::answers, guarantee::leaks)},
    {seeded_bug::number_of_another, "number_of_another", "a holder is told the number that is none of its own",
     guarantee::numbers},
    {seeded_bug::guard_any_grant, "guard_any_grant", "a guard asks for the session only, and not for the grant",
     guarantee::guards},
    {seeded_bug::proclaim_without_index, "proclaim_without_index",
     "a proclaim is written without looking at the key's index", guarantee::elections, worlds_of_an_election},
    {seeded_bug::proclaim_of_the_deposed, "proclaim_of_the_deposed",
     "a proclaim is written at the key's index, whoever has locked it", guarantee::elections, worlds_of_an_election},
    {seeded_bug::proclaimed_value_forgotten, "proclaimed_value_forgotten", "who resigns writes what it campaigned with",
     guarantee::elections, worlds_of_an_election},
    {seeded_bug::observer_tells_once, "observer_tells_once", "an observer tells the first answer only",
     guarantee::elections, worlds_of_an_election},
    {seeded_bug::observer_asks_from_now, "observer_asks_from_now",
     "an observer asks from now on, and not from where it has heard", guarantee::elections, worlds_of_an_election},
    {seeded_bug::observer_keeps_its_index, "observer_keeps_its_index", "an observer's index never goes back",
     guarantee::elections, worlds_of_an_election},
    {seeded_bug::observer_hears_of_the_past, "observer_hears_of_the_past",
     "an observer is told what stood in the key before", guarantee::elections, worlds_of_an_election},
    // Two guarantees: the application of the holder may hang, and then another process gets the lock.
    {seeded_bug::set_lease_counted_late, "set_lease_counted_late", "the lease runs from when the reply came",
     broken_guarantees(guarantee::backing, guarantee::limit), worlds_of_a_set},
    // Two guarantees: a copy that arrives late enough locks a key that no user holds.
    {seeded_bug::set_guard_ignored, "set_guard_ignored", "a repeated transaction is applied again",
     broken_guarantees(guarantee::backing, guarantee::progress), worlds_of_a_set},
    {seeded_bug::set_unknown_taken_for_not_sent, "set_unknown_taken_for_not_sent",
     "a transaction of unknown outcome is taken for one that was not sent", guarantee::losses, worlds_of_a_set},
    {seeded_bug::set_barrier_forgotten, "set_barrier_forgotten",
     "a transaction of unknown outcome is done anew without a barrier", guarantee::losses, worlds_of_a_set},
    {seeded_bug::set_release_unchecked, "set_release_unchecked", "a release removes the key whoever has it",
     guarantee::backing, worlds_of_a_set},
    // Two guarantees: a refusal of the last operation has no next one. Then the whole transaction counts as refused.
    {seeded_bug::set_wrong_one_denied, "set_wrong_one_denied", "a refusal is told to the next one in the transaction",
     broken_guarantees(guarantee::progress, guarantee::answers), worlds_of_a_set},
    {seeded_bug::set_lock_kept_after_cancel, "set_lock_kept_after_cancel",
     "a lock that crosses the user's cancellation is not given back", guarantee::progress, worlds_of_a_set},
    {seeded_bug::set_session_stays, "set_session_stays", "what is dropped is not destroyed",
     broken_guarantees(guarantee::leaks, guarantee::progress), worlds_of_a_set},
    // Two guarantees: a holder that is not told believes in its lock until the lease is over.
    {seeded_bug::set_loss_not_told, "set_loss_not_told", "a holder is not told that its lock is gone",
     broken_guarantees(guarantee::losses, guarantee::backing), worlds_of_a_set},
    {seeded_bug::set_end_not_watched, "set_end_not_watched", "nobody watches the session", guarantee::losses,
     worlds_of_a_set},
    {seeded_bug::set_token_reused, "set_token_reused", "all locks of a session have the token of the first",
     guarantee::tokens, worlds_of_a_set},
};

std::string_view to_string(seeded_bug bug);

class sabotage {
public:
  explicit sabotage(seeded_bug bug) : bug_(bug) {}

  seeded_bug which() const { return bug_; }
  bool on() const { return bug_ != seeded_bug::none; }
  void bend(protocol::pool_options& options, protocol::duration request_timeout) const;
  void bend(protocol::mutex_set_options& options, protocol::duration request_timeout) const;
  void bend(testing::store& store) const;

  /// Makes a step of the pool with the bug, which may change or drop the event before the step and the actions after
  /// it. `out` receives the actions to perform, and `then` the events to deliver next. Returns false if the pool did
  /// not receive the event.
  bool step(int process, protocol::core& pool, protocol::core_event&& e, protocol::time_point now,
            protocol::core_actions& out, std::vector<protocol::core_event>& then);

  /// Changes an operator's command as it is written. `lock_index` is the index that the record has at that time.
  void bend(protocol::instruction& order, std::uint64_t lock_index) const;
  // The same for proclaims and for observers.
  void bend(protocol::event::key_watched& seen, const std::string& session);
  void bend(std::vector<kv_operation>& proclaim);
  void bend(int process, protocol::observer::question& asked, std::uint64_t newest);
  void bend(int process, protocol::event::key_watched& heard);
  bool tells(bool again) const { return !again || bug_ != seeded_bug::observer_tells_once; }

private:
  bool lets_in(int process, protocol::core_event& e, protocol::core_actions& instead);
  bool lets_out(int process, protocol::core_action& a, std::vector<protocol::core_event>& then);
  bool lets_in(int process, protocol::event::prefix_listed& e);
  bool lets_out(int process, protocol::action::send_txn& a, std::vector<protocol::core_event>& then);
  void hide_orders(int process, protocol::core_event& e);
  void hide_orders(int process, kv_entry& pair);
  void keep_orders(int process, protocol::lock_record& record);

  const seeded_bug bug_;
  std::set<std::pair<int, protocol::ticket>> gone_;               ///< requests that nobody waits for any more
  std::set<std::pair<int, protocol::slot_id>> dropped_;           ///< slots that no user knows of
  std::set<std::pair<int, protocol::slot_id>> untold_;            ///< lost slots whose users were not told
  std::map<int, std::vector<kv_entry>> old_;                      ///< an earlier listing
  std::map<std::pair<int, std::string>, std::uint64_t> highest_;  ///< the highest index of each query
  std::map<int, fencing_token> first_token_;
  std::map<int, std::string> session_;                 ///< the last session
  std::map<int, std::set<protocol::ticket>> waiting_;  ///< requests for one slot
  std::uint64_t releases_ = 0;
  /// The newest record that was seen, and its index.
  std::map<int, std::pair<std::uint64_t, protocol::lock_record>> true_record_;
  std::map<int, std::uint32_t> highest_limit_;
  bool deposed_ = false;                               ///< the process that proclaims has lost the key
  std::map<int, protocol::event::key_watched> heard_;  ///< the previous answer
};

}  // namespace holdfast::test

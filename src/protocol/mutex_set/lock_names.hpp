// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/core/core_options.hpp"
#include "protocol/core/slot_table.hpp"
#include "protocol/mutex_set/lock_queues.hpp"
#include "protocol/session/session.hpp"

namespace holdfast::protocol {

/// The names that anybody in this process holds, requests or releases, with their callers and slots. Also the queues of
/// locks and unlocks to be sent, and the names that lost sessions may still have locked.
///
/// A copy refers to the names of the original.
class lock_names {
public:
  enum class standing {
    wanted,   ///< to be locked
    held,     ///< a user holds it
    lost,     ///< lost, but not yet released by its user: until then, nobody else in this process gets it
    leaving,  ///< to be unlocked; if a caller has asked for it meanwhile, it is tried for that caller after this
  };
  struct lost_session;
  /// The state of one name. It exists while anybody in this process holds, requests or releases the lock.
  struct lock {
    lock_names::standing standing = standing::wanted;
    std::optional<ticket> asked{};    ///< the caller that waits for the lock, if there is one
    time_point came{};                ///< when that caller asked
    request_id asked_after = 0;       ///< only requests later than this one count as a try for that caller
    slot_id slot = slot_id::none;     ///< held by a user, or lost, or being released
    std::uint64_t grant = 0;          ///< the index of the locking write
    bool sent = false;                ///< in the transaction that is pending or whose outcome is unknown
    bool is_rest = false;             ///< its batch was refused, maybe because of others' locks; to be sent again
    lost_session* blocker = nullptr;  ///< the lost session whose end it waits for, in that session's `blocked`

    bool is_in_hands() const { return standing == standing::held || standing == standing::lost; }
  };
  using locks = std::map<std::string, lock, std::less<>>;
  using place = locks::value_type;
  /// The locks that a session may still have after we have stopped using it.
  struct lost_session {
    time_point since{};
    std::set<std::string, std::less<>>
        names{};  ///< names that it may still have locked: Consul would refuse them to us
    /// Slots that were lost with this session and that their users have not released. Until they are released, or until
    /// `over_at`, we do not destroy the session, so that Consul keeps the keys from other processes.
    std::vector<slot_id> lost{};
    time_point over_at{};
    std::vector<slot_id> releasing{};    ///< slots whose releases are answered when it has ended, if not before
    std::map<ticket, place*> blocked{};  ///< the `names` that somebody asks for, in the order of the requests
  };
  /// A lock or an unlock in a transaction.
  struct part {
    lock_names::place* place = nullptr;
    bool locks = false;  ///< true: it locks the name; false: it unlocks it

    /// The number of operations that it needs in a batch.
    std::size_t operations() const { return locks ? 1 : 2; }
  };
  /// The effect that a part of a refused transaction would have had.
  struct effect {
    std::string name;
    bool locks = false;  ///< true: it locks the name; false: it unlocks it
  };

  // --- What callers and users do

  std::size_t size() const { return locks_.size(); }
  bool empty() const { return locks_.empty(); }
  /// The number of callers that wait.
  std::size_t asking() const { return asking_.size(); }
  std::size_t releases() const { return releases_.size(); }
  /// When the caller that has waited longest asked. There must be one.
  time_point first_came() const { return asking_.begin()->second->second.came; }

  /// Notes a caller. Returns false if another caller asks for this name, or if a user here has it.
  bool ask(context& ctx, std::string_view name, ticket asked);
  /// The caller does not wait any more. Returns false if it has not waited.
  bool cancel(context& ctx, ticket asked);
  void release(context& ctx, slot_id id);
  /// All held locks are lost, because the set is closed.
  void lose_all(context& ctx, const std::string& session);
  void fail_first(context& ctx, const failure& why);
  void fail_all(context& ctx, const failure& why);
  /// Fails the callers that have waited for `give_up_after` for the end of a lost session.
  void fail_blocked(context& ctx, const core_options& options);
  /// Answers each release within `give_up_after`, even if its key is still locked.
  void check_releases(context& ctx, const core_options& options);
  void answer_all_releases(context& ctx, const failure& why);

  std::size_t held() const { return held_; }
  /// The number of slots that were lost by closing the set, and whose session is in use.
  std::size_t lost() const { return lost_; }
  /// True if any user still has a lost slot, also of a lost session.
  bool any_lost() const;
  /// True if each name is to be unlocked, and Consul has refused that.
  bool has_only_denied() const { return locks_.size() == queues_.denied(); }
  bool has_denied() const { return queues_.denied() != 0; }
  /// When the last name was forgotten, or when the session was created if that was later.
  time_point idle_since() const { return idle_since_; }
  void is_idle(context& ctx) { idle_since_ = ctx.now(); }
  /// The name of this slot, or null if no user holds the slot.
  const place* held_by(slot_id id);
  /// Reports to each user that holds a slot until when its lease lasts.
  void report(context& ctx, time_point deadline, bool is_suspect);

  // --- What is sent

  /// Puts the queues in order for the next batch.
  void prepare(context& ctx);
  bool has_locks() const { return queues_.has_locks(); }
  bool has_unlocks() const { return queues_.has_unlocks(); }
  /// Takes as many unlocks and locks from the queues as fit into this number of operations. Unlocks come first.
  std::vector<part> take_parts(context& ctx, std::size_t operations, bool may_lock);

  // --- What an answer means

  /// These parts were not applied. They go to the fronts of the queues for the next batches. `as_rest`: they are sent
  /// again without newcomers.
  void put_back(const std::vector<part>& parts, bool as_rest = false);
  /// Consul has locked the name for us at this index, for the caller that asks for it.
  void locked(context& ctx, place& at, std::uint64_t index, const own_session& by);
  /// Consul has unlocked the name, or our session had not locked it any more (`why`).
  void unlocked(context& ctx, place& at, const failure& why = {});
  /// We had locked the name, and it was taken away meanwhile.
  void taken_away(context& ctx, place& at);
  /// Consul has refused this part of the transaction `id`. `why` is the error that is reported, if any is. `is_error`:
  /// repetition would not help.
  void refused(context& ctx, const part& each, request_id id, bool is_error, const failure& why);
  /// A late copy of a refused batch was applied, so its effects have taken place after all.
  void copy_applied(context& ctx, const std::vector<effect>& effects);

  // --- Lost sessions

  /// We stop using this session. All its locks are lost for this reason. Callers that wait go on with another session.
  /// `over_at`: when Consul has certainly ended it. `maybe_locked`: names that it may lock yet.
  void lose_session(context& ctx, const std::string& session, loss_reason reason, const failure& why,
                    time_point over_at, std::set<std::string, std::less<>> maybe_locked);
  /// Consul has ended this lost session.
  void has_ended(context& ctx, std::string_view session);
  /// Takes the lost slots whose session has certainly ended from their users.
  void let_go_of_overdue(context& ctx);
  /// From now on no lost slot keeps its session (`let_go_of_overdue`).
  void lost_are_overdue(context& ctx);
  /// True if users still have slots that were lost with this session, so that it must not be destroyed.
  bool keeps(std::string_view session) const { return !lost_sessions_.find(session)->second.lost.empty(); }

private:
  struct slot {
    lock_names::place* place = nullptr;  ///< the lock of this slot, until its user releases it or its session has ended
    bool releasing = false;              ///< a user waits for the end of its release
  };

  void want(place& at);
  void forget(context& ctx, place& at);
  void stop_asking(context& ctx, place& at);
  void leave(place& at);
  void answer_release(context& ctx, slot_id id, const failure& why = {});
  void let_go(context& ctx, slot_id id);
  void let_go(context& ctx, lost_session& d, slot_id id);
  lost_session* blocker_of(std::string_view name);
  bool is_of_lost_session(slot_id id) const;
  bool may_be_locked(const lock& l, loss_reason reason) const;
  void lose(context& ctx, place& at, const std::string& session, loss_reason reason, const failure& why,
            lost_session& d);
  static bool is_held(const slot& s) { return s.place && s.place->second.standing == standing::held; }

  locks locks_;
  std::map<ticket, place*> asking_;  ///< callers that wait for an answer, in the order in which they came
  lock_queues<place> queues_;
  slot_table<slot> slots_;
  std::size_t held_ = 0;
  std::size_t lost_ = 0;                                 ///< slots lost by closing the set, whose session is in use
  std::deque<std::pair<time_point, slot_id>> releases_;  ///< in the order in which they began; some are answered
  std::map<std::string, lost_session, std::less<>> lost_sessions_;  ///< until Consul has ended them
  time_point idle_since_{};
};

}  // namespace holdfast::protocol
